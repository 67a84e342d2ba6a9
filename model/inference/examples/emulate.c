/* emulate_c CHECKPOINT BATCH < rows of numbers: the net's forecast of each row, as text that loses no bit */
#include <isobar/isobar.h>
#include <stdio.h>
#include <stdlib.h>

static int refuse(const char* why) {
  return fprintf(stderr, "%s\n", why), 64;
}

int main(int argc, char** argv) {
  isobar_net* net = NULL;
  isobar_options options = {1, 0};
  float *in, *out;
  char* end;
  int64_t inputs, outputs, rows = 0, room = 1024, i, size;
  isobar_shape a, b;
  if (argc != 3) return refuse("usage: emulate_c CHECKPOINT BATCH < rows of numbers");
  options.batch = strtol(argv[2], &end, 10);
  if (end == argv[2] || *end) return refuse("BATCH is no whole number");
  if (isobar_open(argv[1], &options, &net) != ISOBAR_OK) return fprintf(stderr, "%s\n", isobar_last_error()), 2;
  a = isobar_input_shape(net), b = isobar_output_shape(net);
  inputs = a.channels * a.height * a.width, outputs = b.channels * b.height * b.width;
  in = malloc(room * inputs * sizeof *in);
  for (size = 0; in && scanf("%f", &in[size]) == 1;)
    if (++size == room * inputs) in = realloc(in, (room *= 2) * inputs * sizeof *in);
  rows = size / inputs;
  out = malloc((rows * outputs + 1) * sizeof *out);
  if (!in || !out) return 3;
  if (!feof(stdin) || size % inputs) return refuse("the input ends within a row, or with what is no number");
  if (isobar_run(net, rows, in, out) != ISOBAR_OK) return fprintf(stderr, "%s\n", isobar_last_error()), 2;
  for (i = 0; i < rows * outputs; ++i) printf("%.9g\n", out[i]);
  free(in), free(out);
  isobar_close(net);
  return 0;
}
