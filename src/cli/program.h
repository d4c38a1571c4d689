// The command line as a function: the program `nestor` calls it, and so does the one of the Python package.
#pragma once

namespace nestor::cli {

// Gives the exit code. It is for a process of its own: it sets how signals and large memory are dealt with.
int run_program(int argc, char** argv);

}  // namespace nestor::cli
