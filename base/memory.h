/* memory - what the process holds, and on what pages. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* Bytes of memory that the process has had in use at most (resident, mapped files
 * included); 0 where the system does not tell. */
size_t memory_peak(void);

/* Asks for pages of 2 MiB where whole ones lie in the range: fewer faults at the first
 * touch, fewer misses of address translation after it. Call it before the first touch. */
void memory_use_huge_pages(void *start, size_t bytes);

#endif
