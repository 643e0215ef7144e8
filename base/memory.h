/* memory - what the process holds. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* Bytes of memory that the process has had in use at most (resident, mapped files
 * included); 0 where the system does not tell. */
size_t memory_peak(void);

#endif
