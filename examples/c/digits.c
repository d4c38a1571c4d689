/* Which digit is it? Reads 8x8 grey values from 0 to 16 and prints the most probable digit.
 *
 *   nestor compile examples/digits/digits.json --dim batch=1 -o digits.so
 *   cc -I. examples/c/digits.c digits.so -Wl,-rpath,'$ORIGIN' -o digits
 */
#include "digits.h"

#include <stdio.h>

int main(void) {
  float image[64], probability[10];
  struct digits* model = digits_create(NULL);
  const struct digits_inputs in = {.image = image};
  const struct digits_outputs out = {.probability = probability};
  if (!model) return 1;
  for (int i = 0; scanf("%f", &image[i]) == 1;) {
    image[i] /= 16;
    if (++i < 64) continue;
    if (digits_run(model, &in, &out) != 0) return 1;
    int best = 0;
    for (int d = 1; d < 10; ++d) best = probability[d] > probability[best] ? d : best;
    printf("%d\n", best);
    i = 0;
  }
  digits_destroy(model);
  return 0;
}
