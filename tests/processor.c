/* processor - what a test needs of the machine it runs on. */
#include "tests/processor.h"

#include "encoder/onednn.h"
#include "tests/support.h"

void processor_need_bf16(void) {
    struct error err;
    struct device *device;
    SUPPORT_OK(device_open(&device, 1, NULL, &err), err);
    const bool has = device_has_bf16(device);
    if (!has)
        print_message("# skipped: no products of bf16 with %s\n",
                      device_description(device));
    device_close(device);
    if (!has)
        skip();
}
