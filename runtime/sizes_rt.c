/* Arena planning: optimal packing is NP-hard. Largest first with best fit is what deployed runtimes use: on
 * networks it is within a few percent of the lower bound (the largest sum of buffers alive at one step),
 * since the big buffers decide and the small ones fill gaps. Quadratic in the number of buffers, which is at
 * most some thousands. */
#include "runtime/sizes_rt.h"

#include <stddef.h>

extern void* calloc(size_t count, size_t size);
extern void* malloc(size_t size);
extern void free(void* memory);
extern int snprintf(char* to, size_t size, const char* format, ...);

enum { ALIGNMENT = 64 };

static int64_t align_up(int64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* scratch: 2 * count numbers. */
static int64_t plan_arena(int64_t count, const int64_t* bytes, const int64_t* first, const int64_t* last,
                          int64_t* offsets, int64_t* scratch) {
  int64_t *order = scratch, *placed = scratch + count; /* placed: by offset */
  int64_t placed_count = 0, total = 0;
  int64_t sized = 0; /* most have no bytes where there are kernels for chosen sizes */
  for (int64_t i = 0; i < count; ++i) { /* largest first, equal ones in their order */
    offsets[i] = 0;
    if (bytes[i] == 0) continue;
    int64_t at = sized++;
    for (; at > 0 && bytes[order[at - 1]] < bytes[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  for (int64_t k = 0; k < sized; ++k) {
    const int64_t i = order[k], size = align_up(bytes[i]);
    int64_t best = -1, best_gap = 0, end = 0; /* end: of what lies below, as far as it is alive with i */
    for (int64_t q = 0; q < placed_count; ++q) {
      const int64_t p = placed[q];
      if (first[i] > last[p] || first[p] > last[i]) continue;
      const int64_t gap = offsets[p] - end;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      const int64_t behind = offsets[p] + align_up(bytes[p]);
      if (behind > end) end = behind;
    }
    offsets[i] = best >= 0 ? best : end;
    if (offsets[i] + size > total) total = offsets[i] + size;
    int64_t at = placed_count++;
    for (; at > 0 && offsets[placed[at - 1]] > offsets[i]; --at) placed[at] = placed[at - 1];
    placed[at] = i;
  }
  return total;
}

int64_t nestor_plan_arena(int64_t count, const int64_t* bytes, const int64_t* first, const int64_t* last,
                          int64_t* offsets) {
  if (count == 0) return 0;
  int64_t* scratch = malloc((size_t)(2 * count) * sizeof *scratch);
  if (!scratch) return -1;
  const int64_t total = plan_arena(count, bytes, first, last, offsets, scratch);
  free(scratch);
  return total;
}

struct nestor_fit* nestor_fit_create(const struct nestor_sizes* plan) {
  struct nestor_fit* fit = calloc(1, sizeof *fit);
  if (!fit) return NULL;
  /* The arena's planning takes five more lists. */
  const int64_t words = plan->symbol_count + plan->numbers + 6 * plan->arena_count;
  fit->symbols = calloc((size_t)words + 1, sizeof(int64_t));
  if (!fit->symbols) {
    free(fit);
    return NULL;
  }
  fit->numbers = fit->symbols + plan->symbol_count;
  fit->offsets = fit->numbers + plan->numbers;
  fit->arena_bytes = -1;
  return fit;
}

void nestor_fit_destroy(struct nestor_fit* fit) {
  if (fit) free(fit->symbols);
  free(fit);
}

static int check_dims(const struct nestor_sizes* plan, struct nestor_fit* fit, const int64_t* dims) {
  for (int64_t c = 0; c < plan->check_count; ++c) {
    const struct nestor_size_check* check = &plan->checks[c];
    if (dims[check->place] == fit->numbers[check->number]) continue;
    snprintf(fit->why, sizeof fit->why, "%s is %lld, it must be %lld", check->what,
             (long long)dims[check->place], (long long)fit->numbers[check->number]);
    return 0;
  }
  return 1;
}

static void add_size(struct nestor_fit* fit, const char* before, const char* what, int64_t size) {
  size_t at = 0;
  while (at < sizeof fit->why && fit->why[at]) ++at;
  if (at < sizeof fit->why)
    snprintf(fit->why + at, sizeof fit->why - at, "%s%s is %lld", before, what, (long long)size);
}

void nestor_add_sizes(const struct nestor_sizes* plan, struct nestor_fit* fit) {
  const char* before = "; ";
  for (int64_t s = 0; s < plan->symbol_count; ++s) {
    if (plan->symbols[s].place < 0) continue;
    add_size(fit, before, plan->symbols[s].what, fit->symbols[s]);
    before = ", ";
  }
}

static void say_bounds(struct nestor_fit* fit, const struct nestor_symbol* of, int64_t size) {
  snprintf(fit->why, sizeof fit->why, "%s is %lld, it was compiled for %lld to %lld", of->what, (long long)size,
           (long long)of->least, (long long)of->most);
}

/* The numbers, and whether that holds which can be said after that symbol is known. */
static int compute_numbers(const struct nestor_sizes* plan, struct nestor_fit* fit, int64_t after) {
  void* args[2] = {fit->symbols, fit->numbers};
  plan->kernel(args, NULL, NULL);
  for (int64_t r = 0; r < plan->requirement_count; ++r) {
    if (plan->requirements[r].after != after || fit->numbers[plan->requirements[r].number]) continue;
    snprintf(fit->why, sizeof fit->why, "%s", plan->requirements[r].text);
    nestor_add_sizes(plan, fit);
    if (after >= 0) add_size(fit, "; ", plan->symbols[after].what, fit->symbols[after]);
    return 0;
  }
  return 1;
}

int32_t nestor_found_size(const struct nestor_sizes* plan, struct nestor_fit* fit, int64_t symbol, int64_t size) {
  const struct nestor_symbol* of = &plan->symbols[symbol];
  if (size < of->least || size > of->most) {
    say_bounds(fit, of, size);
    return NESTOR_SIZES_BAD;
  }
  fit->symbols[symbol] = size;
  return compute_numbers(plan, fit, symbol) ? NESTOR_SIZES_SAME : NESTOR_SIZES_BAD;
}

static int compute(const struct nestor_sizes* plan, struct nestor_fit* fit) {
  if (!compute_numbers(plan, fit, -1)) return 0;
  int64_t *bytes = fit->offsets + plan->arena_count, *first = bytes + plan->arena_count,
          *last = first + plan->arena_count;
  for (int64_t v = 0; v < plan->arena_count; ++v) {
    bytes[v] = fit->numbers[plan->arena[v].bytes];
    first[v] = plan->arena[v].first;
    last[v] = plan->arena[v].last;
  }
  const int64_t arena =
      plan_arena(plan->arena_count, bytes, first, last, fit->offsets, last + plan->arena_count);
  fit->workspace_bytes = 0;
  for (int64_t w = 0; w < plan->workspace_count; ++w) {
    const int64_t needed = align_up(fit->numbers[plan->workspaces[w]]);
    if (needed > fit->workspace_bytes) fit->workspace_bytes = needed;
  }
  fit->arena_bytes = arena;
  return 1;
}

int32_t nestor_fit_sizes(const struct nestor_sizes* plan, struct nestor_fit* fit, const int64_t* dims) {
  int same = fit->arena_bytes >= 0;
  for (int64_t s = 0; s < plan->symbol_count; ++s)
    same = same && (plan->symbols[s].place < 0 || fit->symbols[s] == dims[plan->symbols[s].place]);
  if (!same) {
    fit->arena_bytes = -1;
    for (int64_t s = 0; s < plan->symbol_count; ++s) {
      const struct nestor_symbol* symbol = &plan->symbols[s];
      if (symbol->place < 0) continue;
      const int64_t value = dims[symbol->place];
      if (value < symbol->least || value > symbol->most) {
        say_bounds(fit, symbol, value);
        return NESTOR_SIZES_BAD;
      }
      fit->symbols[s] = value;
    }
    if (!compute(plan, fit)) return NESTOR_SIZES_BAD;
  }
  if (!check_dims(plan, fit, dims)) return NESTOR_SIZES_BAD;
  return same ? NESTOR_SIZES_SAME : NESTOR_SIZES_NEW;
}
