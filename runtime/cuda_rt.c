#include "runtime/cuda_rt.h"

#include <stdatomic.h>

#include "runtime/text_rt.h"
#include "runtime/weights_rt.h"

extern void* calloc(size_t count, size_t size);
extern void free(void* memory);
extern int memcmp(const void* a, const void* b, size_t size);
extern void* memcpy(void* to, const void* from, size_t size);

enum { ALIGNED = 256 }; /* as cuMemAlloc aligns */
enum { VECTOR = 16 };   /* as kernels load and store; tensors of the device elsewhere are copied */

struct nestor_cuda {
  struct nestor_cuda_driver driver;
  const struct nestor_cuda_model* model;
  int device, retained;
  void *context, *module, *stream;
  void** functions;
  nestor_device_pointer memory, arena, weights, flags;
  nestor_device_pointer* own;    /* room for inputs, then outputs, of the host */
  nestor_device_pointer* places; /* where inputs, then outputs, are in this run */
  nestor_device_pointer* before; /* and where they were in the last one, and are in the graph */
  nestor_device_pointer* values; /* of the call at hand */
  void** args;
  int32_t* found; /* by index checks */
  void* graph;
  int runs, no_graph;
  atomic_int running;
  char why[MAX_PATH];
};

static int64_t align(int64_t bytes) {
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* 1, or 0 and in `why` what was refused and the driver's reason. */
static int succeeds(struct nestor_cuda* c, int status, const char* what) {
  const char* text = NULL;
  if (status == 0) return 1;
  c->driver.error_text(status, &text);
  size_t at = append_text(c->why, 0, what, MAX_PATH);
  at = append_text(c->why, at, ": ", MAX_PATH);
  append_text(c->why, at, text ? text : "unknown error", MAX_PATH);
  return 0;
}

static size_t append_sm(char* text, size_t at, int sm, int specific) {
  at = append_text(text, at, "sm_", MAX_PATH);
  at = append_number(text, at, sm);
  return append_text(text, at, specific ? "a" : "", MAX_PATH);
}

static size_t append_version(char* text, size_t at, int64_t version) {
  at = append_number(text, at, version / 1000);
  at = append_text(text, at, ".", MAX_PATH);
  return append_number(text, at, version % 1000 / 10);
}

static int fits(const struct nestor_cuda_image* image, int sm) {
  switch (image->form) {
    case NESTOR_CUDA_CODE:
      return image->sm / 10 == sm / 10 && image->sm <= sm;
    case NESTOR_CUDA_SPECIFIC_CODE:
      return image->sm == sm;
    case NESTOR_CUDA_PTX:
      return image->sm <= sm;
    default:
      return 1;
  }
}

/* Machine code before PTX, and of each the one made for the newest device. */
static const struct nestor_cuda_image* choose_image(const struct nestor_cuda_model* model, int sm) {
  const struct nestor_cuda_image* best = NULL;
  for (int64_t i = 0; i < model->image_count; ++i) {
    const struct nestor_cuda_image* image = &model->images[i];
    if (!fits(image, sm)) continue;
    const int ptx = image->form == NESTOR_CUDA_PTX, best_ptx = best && best->form == NESTOR_CUDA_PTX;
    if (!best || (best_ptx && !ptx) || (best_ptx == ptx && image->sm >= best->sm)) best = image;
  }
  return best;
}

static int fail_image(struct nestor_cuda* c, int sm) {
  char name[256] = "the device";
  c->driver.device_name(name, sizeof name, c->device);
  size_t at = append_text(c->why, 0, name, MAX_PATH);
  at = append_text(c->why, at, " is ", MAX_PATH);
  at = append_sm(c->why, at, sm, 0);
  at = append_text(c->why, at, ", and there is code for ", MAX_PATH);
  for (int64_t i = 0; i < c->model->image_count; ++i) {
    const struct nestor_cuda_image* image = &c->model->images[i];
    at = append_text(c->why, at, i ? ", " : "", MAX_PATH);
    at = append_sm(c->why, at, image->sm, image->form == NESTOR_CUDA_SPECIFIC_CODE);
    at = append_text(c->why, at, image->form == NESTOR_CUDA_PTX ? " and newer" : "", MAX_PATH);
  }
  at = append_text(c->why, at, ": compile with --target cuda:", MAX_PATH);
  append_sm(c->why, at, sm, 0);
  return 0;
}

static int load(struct nestor_cuda* c) {
  const struct nestor_cuda_model* model = c->model;
  const int sm = nestor_cuda_capability(&c->driver, c->device);
  const struct nestor_cuda_image* image = choose_image(model, sm);
  if (!image) return fail_image(c, sm);
  const int status = c->driver.load(&c->module, image->bytes);
  int version = 0;
  c->driver.version(&version);
  if (status != 0 && version < model->cuda_version) {
    size_t at = append_text(c->why, 0, "the driver is of CUDA ", MAX_PATH);
    at = append_version(c->why, at, version);
    at = append_text(c->why, at, " and can't load code that was made by CUDA ", MAX_PATH);
    at = append_version(c->why, at, model->cuda_version);
    append_text(c->why, at, ": update the driver, or compile with an older NVRTC", MAX_PATH);
    return 0;
  }
  if (!succeeds(c, status, "the driver can't load the kernels")) return 0;
  for (int64_t k = 0; k < model->kernel_count; ++k) {
    const struct nestor_cuda_kernel* kernel = &model->kernels[k];
    if (!succeeds(c, c->driver.function(&c->functions[k], c->module, kernel->name), kernel->name)) return 0;
    if (kernel->dynamic_shared &&
        !succeeds(
            c, c->driver.set_attribute(c->functions[k], NESTOR_CUDA_DYNAMIC_SHARED, kernel->dynamic_shared),
            kernel->name))
      return 0;
  }
  return 1;
}

static int fail_memory(struct nestor_cuda* c, int64_t bytes) {
  size_t free_bytes = 0, total = 0;
  c->driver.memory(&free_bytes, &total);
  size_t at = append_text(c->why, 0, "the device has too little memory: ", MAX_PATH);
  at = append_number(c->why, at, bytes);
  at = append_text(c->why, at, " bytes are needed, and ", MAX_PATH);
  at = append_number(c->why, at, (int64_t)free_bytes);
  append_text(c->why, at, " are free", MAX_PATH);
  return 0;
}

static int64_t bytes_of_tensor(const struct nestor_cuda_model* m, int64_t i) {
  return i < m->inputs ? m->input_bytes[i] : m->output_bytes[i - m->inputs];
}

/* One block: arena, weights, room for tensors of the host, results of index checks. */
static int take_memory(struct nestor_cuda* c, const struct nestor_options* options,
                       const struct nestor_weights* weights) {
  const struct nestor_cuda_model* m = c->model;
  int64_t bytes = align(m->arena_bytes) + align(weights->bytes) + align(4 * m->checks);
  for (int64_t i = 0; i < m->inputs + m->outputs; ++i) bytes += align(bytes_of_tensor(m, i));
  const int status = c->driver.allocate(&c->memory, (size_t)(bytes > 0 ? bytes : ALIGNED));
  if (status == NESTOR_CUDA_OUT_OF_MEMORY) return fail_memory(c, bytes);
  if (!succeeds(c, status, "memory of the device")) return 0;
  c->arena = c->memory;
  c->weights = c->arena + (nestor_device_pointer)align(m->arena_bytes);
  c->flags = c->weights + (nestor_device_pointer)align(weights->bytes);
  nestor_device_pointer next = c->flags + (nestor_device_pointer)align(4 * m->checks);
  for (int64_t i = 0; i < m->inputs + m->outputs; ++i) {
    c->own[i] = next;
    next += (nestor_device_pointer)align(bytes_of_tensor(m, i));
  }
  if (weights->bytes == 0) return 1;
  struct nestor_found_weights found;
  if (!nestor_find_weights(&found, options, weights)) return 0; /* it has said why */
  const int copied =
      succeeds(c, c->driver.to_device(c->weights, found.bytes, (size_t)weights->bytes, c->stream),
               "weights to the device") &&
      succeeds(c, c->driver.synchronize(c->stream), "weights to the device");
  nestor_release_weights(&found, weights);
  return copied;
}

static void* room(int64_t count, size_t size) {
  return calloc(count > 0 ? (size_t)count : 1, size);
}

static int start(struct nestor_cuda* c, const struct nestor_options* options,
                 const struct nestor_weights* weights, const struct nestor_cuda_driver* driver) {
  const struct nestor_cuda_model* m = c->model;
  const int64_t tensors = m->inputs + m->outputs;
  c->functions = room(m->kernel_count, sizeof *c->functions);
  c->own = room(tensors, sizeof *c->own);
  c->places = room(tensors, sizeof *c->places);
  c->before = room(tensors, sizeof *c->before);
  c->values = room(m->most_args, sizeof *c->values);
  c->args = room(m->most_args, sizeof *c->args);
  c->found = room(m->checks, sizeof *c->found);
  if (!c->functions || !c->own || !c->places || !c->before || !c->values || !c->args || !c->found) {
    append_text(c->why, 0, "there isn't enough memory", MAX_PATH);
    return 0;
  }
  const char* missing = NULL;
  if (driver)
    c->driver = *driver;
  else
    missing = nestor_find_cuda_driver(&c->driver);
  if (missing) {
    append_text(c->why, 0, missing, MAX_PATH);
    return 0;
  }
  if (!succeeds(c, c->driver.device(&c->device, options->device), "there is no such CUDA device")) return 0;
  if (!succeeds(c, c->driver.retain(&c->context, c->device), "the device gives no context")) return 0;
  c->retained = 1;
  if (!succeeds(c, c->driver.push(c->context), "the device's context")) return 0;
  const int done = succeeds(c, c->driver.create_stream(&c->stream, 0), "a stream") && load(c) &&
                   take_memory(c, options, weights);
  c->driver.pop(NULL);
  return done;
}

struct nestor_cuda* nestor_cuda_create(const struct nestor_options* options,
                                       const struct nestor_cuda_model* model,
                                       const struct nestor_weights* weights,
                                       const struct nestor_cuda_driver* driver) {
  static const struct nestor_options defaults;
  if (!options) options = &defaults;
  struct nestor_cuda* c = calloc(1, sizeof *c);
  if (!c) {
    nestor_fail(options, (const char*[]){"there isn't enough memory", NULL});
    return NULL;
  }
  c->model = model;
  if (start(c, options, weights, driver)) return c;
  if (c->why[0]) nestor_fail(options, (const char*[]){c->why, NULL});
  nestor_cuda_destroy(c);
  return NULL;
}

static nestor_device_pointer address(const struct nestor_cuda* c, int64_t place) {
  const int64_t at = place >> NESTOR_REGION_BITS;
  switch (place & ((1 << NESTOR_REGION_BITS) - 1)) {
    case NESTOR_INPUT:
      return c->places[at];
    case NESTOR_OUTPUT:
      return c->places[c->model->inputs + at];
    case NESTOR_ARENA:
      return c->arena + (nestor_device_pointer)at;
    default:
      return c->weights + (nestor_device_pointer)at;
  }
}

static int launch(struct nestor_cuda* c, int32_t kernel) {
  const struct nestor_cuda_kernel* k = &c->model->kernels[kernel];
  return succeeds(
      c,
      c->driver.launch(c->functions[kernel], (unsigned)k->grid[0], (unsigned)k->grid[1], (unsigned)k->grid[2],
                       (unsigned)k->block[0], (unsigned)k->block[1], (unsigned)k->block[2],
                       (unsigned)k->dynamic_shared, c->stream, c->args, NULL),
      k->name);
}

static int enqueue_calls(struct nestor_cuda* c) {
  const int64_t* word = c->model->words;
  nestor_device_pointer flag = c->flags;
  for (int64_t i = 0; i < c->model->calls; ++i) {
    const int32_t kernel = (int32_t)*word, count = (int32_t)(*word >> 32);
    ++word;
    for (int32_t a = 0; a < count; ++a) {
      c->values[a] = address(c, *word++);
      c->args[a] = &c->values[a];
    }
    int done = 1;
    if (kernel >= 0) {
      done = launch(c, kernel);
    } else if (kernel == NESTOR_CALL_COPY) {
      const size_t bytes = (size_t)*word++;
      if (bytes)
        done = succeeds(c, c->driver.on_device(c->values[1], c->values[0], bytes, c->stream), "a copy");
    } else {
      done = succeeds(c, c->driver.on_device(flag, c->values[0], sizeof(int32_t), c->stream), "a copy");
      flag += sizeof(int32_t);
    }
    if (!done) return 0;
  }
  return 1;
}

static void drop_graph(struct nestor_cuda* c) {
  if (c->graph) c->driver.destroy_executable(c->graph);
  c->graph = NULL;
}

/* A driver that makes no graph of them is asked once. */
static void capture(struct nestor_cuda* c) {
  void* graph = NULL;
  int done = c->driver.begin_capture(c->stream, NESTOR_CUDA_CAPTURE_OF_THREAD) == 0;
  if (done) {
    done = enqueue_calls(c);
    done = c->driver.end_capture(c->stream, &graph) == 0 && done;
  }
  done = done && graph && c->driver.instantiate(&c->graph, graph, 0) == 0;
  if (graph) c->driver.destroy_graph(graph);
  if (!done) c->graph = NULL;
  c->no_graph = !done;
}

static int enqueue(struct nestor_cuda* c) {
  const size_t bytes = (size_t)(c->model->inputs + c->model->outputs) * sizeof *c->places;
  const int same = c->runs > 0 && memcmp(c->places, c->before, bytes) == 0;
  if (!same) {
    drop_graph(c);
    memcpy(c->before, c->places, bytes);
  } else if (!c->graph && !c->no_graph && c->driver.launch_graph) {
    capture(c);
  }
  c->runs = 1;
  if (c->graph) return succeeds(c, c->driver.launch_graph(c->graph, c->stream), "the graph of the kernels");
  return enqueue_calls(c);
}

static int is_on_device(const struct nestor_cuda* c, const void* pointer) {
  unsigned type = 0;
  const int status =
      c->driver.pointer(&type, NESTOR_CUDA_MEMORY_TYPE, (nestor_device_pointer)(uintptr_t)pointer);
  return status == 0 && type == NESTOR_CUDA_DEVICE_MEMORY;
}

static int run(struct nestor_cuda* c, const void* const* inputs, void* const* outputs) {
  const struct nestor_cuda_model* m = c->model;
  for (int64_t i = 0; i < m->inputs + m->outputs; ++i) {
    const void* given = i < m->inputs ? inputs[i] : outputs[i - m->inputs];
    const nestor_device_pointer there = (nestor_device_pointer)(uintptr_t)given;
    const int on_device = is_on_device(c, given);
    c->places[i] = on_device && there % VECTOR == 0 ? there : c->own[i];
    if (i < m->inputs && c->places[i] == c->own[i] && m->input_bytes[i] > 0 &&
        !succeeds(c,
                  on_device ? c->driver.on_device(c->own[i], there, (size_t)m->input_bytes[i], c->stream)
                            : c->driver.to_device(c->own[i], given, (size_t)m->input_bytes[i], c->stream),
                  "an input to the device"))
      return 0;
  }
  if (!enqueue(c)) return 0;
  for (int64_t i = 0; i < m->outputs; ++i) {
    const nestor_device_pointer from = c->places[m->inputs + i],
                                to = (nestor_device_pointer)(uintptr_t)outputs[i];
    const size_t bytes = (size_t)m->output_bytes[i];
    if (from == c->own[m->inputs + i] && bytes > 0 &&
        !succeeds(c,
                  is_on_device(c, outputs[i]) ? c->driver.on_device(to, from, bytes, c->stream)
                                              : c->driver.to_host(outputs[i], from, bytes, c->stream),
                  "an output from the device"))
      return 0;
  }
  if (m->checks > 0 &&
      !succeeds(c, c->driver.to_host(c->found, c->flags, (size_t)m->checks * sizeof(int32_t), c->stream),
                "index checks from the device"))
    return 0;
  return succeeds(c, c->driver.synchronize(c->stream), "a run of the kernels");
}

int64_t nestor_cuda_failed_check(const struct nestor_cuda* c) {
  for (int64_t i = 0; i < c->model->checks; ++i)
    if (c->found[i]) return i;
  return -1;
}

int32_t nestor_cuda_run(struct nestor_cuda* c, const void* const* inputs, void* const* outputs) {
  if (atomic_exchange_explicit(&c->running, 1, memory_order_acquire)) return NESTOR_BUSY;
  int32_t result = NESTOR_DEVICE_FAILED;
  if (succeeds(c, c->driver.push(c->context), "the device's context")) {
    if (run(c, inputs, outputs)) result = 0;
    c->driver.pop(NULL);
  }
  if (result == 0 && nestor_cuda_failed_check(c) >= 0) result = NESTOR_BAD_INDEX;
  atomic_store_explicit(&c->running, 0, memory_order_release);
  return result;
}

const char* nestor_cuda_why(const struct nestor_cuda* c) {
  return c->why;
}

void nestor_cuda_destroy(struct nestor_cuda* c) {
  if (!c) return;
  if (c->retained && c->driver.push(c->context) == 0) {
    drop_graph(c);
    if (c->memory) c->driver.free(c->memory);
    if (c->module) c->driver.unload(c->module);
    if (c->stream) c->driver.destroy_stream(c->stream);
    c->driver.pop(NULL);
  }
  if (c->retained) c->driver.release(c->device);
  void* const owned[] = {c->functions, c->own, c->places, c->before, c->values, c->args, c->found, c};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; ++i) free(owned[i]);
}
