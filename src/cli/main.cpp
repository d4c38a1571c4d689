#include "src/cli/program.h"

int main(int argc, char** argv) {
  return nestor::cli::run_program(argc, argv);
}
