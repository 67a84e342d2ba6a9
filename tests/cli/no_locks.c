/* For LD_PRELOAD: a filesystem without flock(2), or one whose locks exclude no process (ISOBAR_NO_LOCKS=idle). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int flock(int fd, int operation) {
  const char* how = getenv("ISOBAR_NO_LOCKS");
  (void)fd, (void)operation;
  if (how && strcmp(how, "idle") == 0) return 0;
  errno = ENOSYS;
  return -1;
}
