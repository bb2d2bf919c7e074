# ns-3 for the network `packet`. Debian's libns3-dev has broken .pc files, so its parts are
# looked for by hand. ns-3 is GPL-2: a program linked with it may be passed on under the GPL
# only, which is why this is off unless asked for.
find_path(NS3_INCLUDE_DIR ns3/point-to-point-net-device.h REQUIRED)
set(NS3_LIBRARIES "")
foreach(part core network point-to-point)
  find_library(NS3_${part}_LIBRARY NAMES ns3-${part} libns3.37-${part} REQUIRED)
  list(APPEND NS3_LIBRARIES ${NS3_${part}_LIBRARY})
endforeach()
target_include_directories(orrery_flags SYSTEM INTERFACE ${NS3_INCLUDE_DIR})
target_compile_definitions(orrery_flags INTERFACE ORRERY_NS3)
target_link_libraries(orrery_flags INTERFACE ${NS3_LIBRARIES})
