/* pretrain - masked-language-model pretraining: the commands. */
#ifndef PRETRAIN_PRETRAIN_H
#define PRETRAIN_PRETRAIN_H

/* normglue pretrain */
int pretrain_command(int argc, char **argv);
/* normglue fill-mask */
int fill_mask_command(int argc, char **argv);

#endif
