// tests/cli/help.py runs all of these, those of a verb in their order in one folder.
#include "src/cli/help_examples.h"

#include "nestor/error.h"

namespace nestor::cli {

namespace {

struct HelpExample {
  const char *verb, *command, *does;
};

constexpr HelpExample kExamples[] = {
    {"compile", "nestor compile 'MatMul(f32[60,64], f32[64,96])' -o product.so",
     "makes product.so and product.h, for this processor"},
    {"compile", "nestor compile 'Relu(f32[8,100])' --target aarch64 --threads 1 -o relu.o",
     "an object to link, for another processor"},
    {"run", "nestor run 'Softmax(f32[4,10])' --input x0=random:1", "prints what the outputs look like"},
    {"run", "nestor run 'Add(f32[3], f32[3])' --input x0=1,2,3 --input x1=zeros -o sum.npz",
     "writes them to a file for NumPy"},
    {"tune", "nestor tune 'Softmax(f32[64,100])' --db softmax.db --time 3s",
     "searches for three seconds; the same command goes on where it stopped"},
    {"tune", "nestor compile 'Softmax(f32[64,100])' --db softmax.db -o softmax.so",
     "uses the best schedule that was found"},
    {"inspect", "nestor inspect 'MatMul(f32[60,64], const f32[64,96])' --stage func", "the loops"},
    {"inspect", "nestor inspect 'MatMul(f32[60,64], const f32[64,96])' --why",
     "the default schedule, and the reason of each number"},
    {"inspect", "nestor inspect 'Softmax(f32[64,100])' --html softmax.html",
     "everything as a page to click through"},
    {"bench", "nestor bench 'MatMul(f32[256,256], f32[256,256])' --threads 1 --seconds 0.5",
     "the time of a run, beside the peak of this processor"},
    {"bench", "nestor bench 'Softmax(f32[64,100])' --schedule naive --schedule default --seconds 0.5",
     "two schedules, measured in turns"},
    {"bench", "nestor bench 'Softmax(f32[64,100])' --seconds 0.5 --profile --trace run.json",
     "each function's time and what bounds it, and a trace for ui.perfetto.dev"},
    {"verify", "nestor verify 'Softmax(f32[64,100])'",
     "compares the machine code with the naive loops in f64"},
    {"verify", "nestor verify 'MatMul(f32[60,64], f32[64,96])' --prove",
     "proves that the schedule computes what the naive loops do"},
    {"db", "nestor tune 'Softmax(f32[64,100])' --db t.db --time 3s", "makes a database"},
    {"db", "nestor db t.db list", "every schedule that was measured"},
    {"db", "nestor db t.db best", "the best one of each function"},
    {"worker", "nestor tune 'Softmax(f32[64,100])' --db t.db --time 3s --workers 'nestor worker'",
     "a worker that a command starts; `ssh HOST nestor worker` starts one on another machine"},
    {"doctor", "nestor doctor", "processor, caches, GPU, and the operators that models may have"},
    {"doctor", "nestor doctor --json", "the same for programs"},
    {"primitives", "nestor primitives", "every primitive in two lines"},
    {"primitives", "nestor primitives split", "one of them: options, requirements, and an example"},
    {"help", "nestor help compile", "the options of compile, and examples"},
};

}  // namespace

std::string help_examples(const std::string& verb) {
  std::string out;
  for (const HelpExample& e : kExamples)
    if (verb == e.verb) out += std::string("\n  ") + e.command + "\n      " + e.does;
  NESTOR_CHECK(!out.empty()) << "the help of " << verb << " has no example";
  return "Examples:" + out;
}

}  // namespace nestor::cli
