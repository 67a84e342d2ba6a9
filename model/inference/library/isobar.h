/* C interface to forecasts of nets trained by Isobar. Needs no other header of Isobar.
 *
 *   isobar_net* net = NULL;
 *   if (isobar_open("runs/emulator", NULL, &net) != ISOBAR_OK) puts(isobar_last_error());
 *   isobar_run(net, n, in, out);              in [n, inputs], out [n, outputs], physical units, f32
 *   isobar_close(net);
 *
 * Fields have the layout [n, channels, height, width]; nets on table rows have height and width 1. The
 * outputs of a classifier are logits: the largest gives the class, their softmax the probabilities. Every
 * function that can fail returns a code and sets the message of isobar_last_error() for its thread; none ends
 * the process. A handle may be used by one thread at a time; different handles may run in parallel.
 */
#ifndef ISOBAR_H
#define ISOBAR_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define ISOBAR_API __attribute__((visibility("default")))

enum {
  ISOBAR_OK = 0,
  ISOBAR_FAILED = 1,    /* an error of the system or the library */
  ISOBAR_BAD_INPUT = 2, /* a checkpoint or an argument; the message gives the fix */
  ISOBAR_OUT_OF_MEMORY = 3
};

typedef struct isobar_net isobar_net;

typedef struct {
  int32_t threads; /* OpenMP threads of each run; 0: 1 */
  int64_t batch;   /* samples computed at once; 0: 256. A remainder runs as one smaller batch */
} isobar_options;

typedef struct {
  int64_t channels, height, width;
} isobar_shape;

/* `checkpoint`: a run's directory (its last checkpoint) or one checkpoint. `options`: NULL for defaults.
 * `net` is set only on ISOBAR_OK. */
ISOBAR_API int isobar_open(const char* checkpoint, const isobar_options* options, isobar_net** net);
ISOBAR_API void isobar_close(isobar_net* net); /* NULL is allowed */

ISOBAR_API isobar_shape isobar_input_shape(const isobar_net* net); /* of one sample */
ISOBAR_API isobar_shape isobar_output_shape(const isobar_net* net);
/* Name and units of a channel, valid until isobar_close; NULL when there is no such channel. Units may be "".
 * A logit has the name of its class, or target and class index: "digit_3". */
ISOBAR_API const char* isobar_input_name(const isobar_net* net, int64_t channel);
ISOBAR_API const char* isobar_input_units(const isobar_net* net, int64_t channel);
ISOBAR_API const char* isobar_output_name(const isobar_net* net, int64_t channel);
ISOBAR_API const char* isobar_output_units(const isobar_net* net, int64_t channel);

/* Runs n samples. Values equal those of `isobar forecast` with the same batch bit for bit (for classes before
 * its softmax); another batch may round differently. */
ISOBAR_API int isobar_run(isobar_net* net, int64_t n, const float* in, float* out);

/* d(output)/d(input) of one sample at `in`, physical units, f32, by the net's backward program. `which`:
 * `rows` elements of the output, counted from 0; `jacobian` [rows, inputs]. */
ISOBAR_API int isobar_jacobian(isobar_net* net, const float* in, int64_t rows, const int64_t* which,
                               float* jacobian);

/* One line on this thread's last failure; "" before the first. Valid until the thread's next failure. */
ISOBAR_API const char* isobar_last_error(void);
ISOBAR_API const char* isobar_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
