// As precompiled_room.h, for the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "precompiled_room.h"
