# Moves an installed tree, so that whatever in it still names the place it was
# installed to is found out. Run with -DPREFIX=… -DMOVED=… -P.
file(REMOVE_RECURSE ${MOVED})
file(RENAME ${PREFIX} ${MOVED})
