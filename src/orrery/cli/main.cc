#include "orrery/cli/command.h"

int main(int argc, char** argv) { return orrery::run_program(argc, argv); }
