/* Forecasts of a net that Isobar has trained, in any program: C89 types, no other header of Isobar's.
 *
 *   isobar_net* net = NULL;
 *   if (isobar_open("runs/emulator", NULL, &net) != ISOBAR_OK) puts(isobar_last_error());
 *   isobar_run(net, n, in, out);              in [n, inputs], out [n, outputs], physical units, f32
 *   isobar_close(net);
 *
 * Fields lie as [n, channels, height, width], and a net of numbers has height and width 1. A net that
 * classifies puts out the logits of its classes: the largest is the class, their softmax the probabilities.
 * Every function that can fail returns a code and leaves a text for isobar_last_error() of the same thread;
 * none ends the process. A handle is used by one thread at a time; different handles work at the same time.
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
  ISOBAR_FAILED = 1,    /* the system or the library */
  ISOBAR_BAD_INPUT = 2, /* a checkpoint or an argument; the text says what to do */
  ISOBAR_OUT_OF_MEMORY = 3
};

typedef struct isobar_net isobar_net;

typedef struct {
  int32_t threads; /* OpenMP threads of each run; 0: 1 */
  int64_t
      batch; /* samples computed at once; 0: 256. What a run has beyond whole batches is one smaller batch */
} isobar_options;

typedef struct {
  int64_t channels, height, width;
} isobar_shape;

/* `checkpoint`: a run's directory (its last checkpoint) or one checkpoint. `options`: NULL for all defaults.
 * `net` is set only where ISOBAR_OK is returned. */
ISOBAR_API int isobar_open(const char* checkpoint, const isobar_options* options, isobar_net** net);
ISOBAR_API void isobar_close(isobar_net* net); /* NULL: nothing */

ISOBAR_API isobar_shape isobar_input_shape(const isobar_net* net); /* of one sample */
ISOBAR_API isobar_shape isobar_output_shape(const isobar_net* net);
/* Of a channel, valid until isobar_close; NULL where there is no such channel. Units may be "". Of an output
 * that is a logit: the name of its class, or the target's and the number of the class, "digit_3". */
ISOBAR_API const char* isobar_input_name(const isobar_net* net, int64_t channel);
ISOBAR_API const char* isobar_input_units(const isobar_net* net, int64_t channel);
ISOBAR_API const char* isobar_output_name(const isobar_net* net, int64_t channel);
ISOBAR_API const char* isobar_output_units(const isobar_net* net, int64_t channel);

/* n samples. The values are those that `isobar forecast` writes with the same batch, to the last bit (of
 * classes it writes their softmax); another batch may round another way. */
ISOBAR_API int isobar_run(isobar_net* net, int64_t n, const float* in, float* out);

/* d(output)/d(input) of one sample at `in`, physical units, f32, by the net's backward program. `which`:
 * `rows` elements of the output, counted from 0; `jacobian` [rows, inputs]. */
ISOBAR_API int isobar_jacobian(isobar_net* net, const float* in, int64_t rows, const int64_t* which,
                               float* jacobian);

/* Of this thread's last failure, one line; "" before the first. Valid until the thread's next failure. */
ISOBAR_API const char* isobar_last_error(void);
ISOBAR_API const char* isobar_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
