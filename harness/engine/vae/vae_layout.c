/* vae_layout.c - tensor names, widths and latent statistics of Wan2.1_VAE.pth and
 * Wan2.2_VAE.pth. */
#include "harness/engine/vae/vae_layout.h"

#include <stddef.h>

static const float mean_2_1[] = { -0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,
                                  -0.1517f, 1.5508f,  0.4134f,  -0.0715f, 0.5517f,  -0.3632f,
                                  -0.1922f, -0.9497f, 0.2503f,  -0.2921f };
static const float std_2_1[] = { 2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f,
                                 2.6052f, 2.0743f, 3.2687f, 2.1526f, 2.8652f, 1.5579f,
                                 1.6382f, 1.1253f, 2.8251f, 1.9160f };

const struct kvr_vae_layout kvr_vae_2_1 = {
    .name = "Wan 2.1",
    .channels = 16,
    .patch = 1,
    .block = {
        { "decoder.middle.0", "middle0", 4, 4, 0 },  { "decoder.middle.2", "middle2", 4, 4, 0 },
        { "decoder.upsamples.0", "up0", 4, 4, 0 },   { "decoder.upsamples.1", "up1", 4, 4, 0 },
        { "decoder.upsamples.2", "up2", 4, 4, 0 },   { "decoder.upsamples.4", "up4", 2, 4, 1 },
        { "decoder.upsamples.5", "up5", 4, 4, 1 },   { "decoder.upsamples.6", "up6", 4, 4, 1 },
        { "decoder.upsamples.8", "up8", 2, 2, 2 },   { "decoder.upsamples.9", "up9", 2, 2, 2 },
        { "decoder.upsamples.10", "up10", 2, 2, 2 }, { "decoder.upsamples.12", "up12", 1, 1, 3 },
        { "decoder.upsamples.13", "up13", 1, 1, 3 }, { "decoder.upsamples.14", "up14", 1, 1, 3 },
    },
    .up = {
        { "decoder.upsamples.3", "up3", 4, 2, true },
        { "decoder.upsamples.7", "up7", 4, 2, true },
        { "decoder.upsamples.11", "up11", 2, 1, false },
    },
    .first_block = { 0, 5, 8, 11, KVR_VAE_BLOCKS },
    .widest = { 4, 4, 2, 1 },
    .mean = mean_2_1,
    .std = std_2_1,
};

static const float mean_2_2[] = { -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,
                                  0.1838f,  0.1557f,  -0.1382f, 0.0542f,  0.2813f,  0.0891f,
                                  0.1570f,  -0.0098f, 0.0375f,  -0.1825f, -0.2246f, -0.1207f,
                                  -0.0698f, 0.5109f,  0.2665f,  -0.2108f, -0.2158f, 0.2502f,
                                  -0.2055f, -0.0322f, 0.1109f,  0.1567f,  -0.0729f, 0.0899f,
                                  -0.2799f, -0.1230f, -0.0313f, -0.1649f, 0.0117f,  0.0723f,
                                  -0.2839f, -0.2083f, -0.0520f, 0.3748f,  0.0152f,  0.1957f,
                                  0.1433f,  -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f };
static const float std_2_2[] = { 0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.4990f, 0.4818f,
                                 0.5013f, 0.8158f, 1.0344f, 0.5894f, 1.0901f, 0.6885f, 0.6165f,
                                 0.8454f, 0.4978f, 0.5759f, 0.3523f, 0.7135f, 0.6804f, 0.5833f,
                                 1.4146f, 0.8986f, 0.5659f, 0.7069f, 0.5338f, 0.4889f, 0.4917f,
                                 0.4069f, 0.4999f, 0.6866f, 0.4093f, 0.5709f, 0.6065f, 0.6415f,
                                 0.4944f, 0.5726f, 1.2042f, 0.5458f, 1.6887f, 0.3971f, 1.0600f,
                                 0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f };

#define STAGE(i, j) "decoder.upsamples." #i ".upsamples." #j
const struct kvr_vae_layout kvr_vae_2_2 = {
    .name = "Wan 2.2",
    .channels = 48,
    .patch = 2,
    .around = true,
    .block = {
        { "decoder.middle.0", "middle0", 4, 4, 0 }, { "decoder.middle.2", "middle2", 4, 4, 0 },
        { STAGE(0, 0), "up0.0", 4, 4, 0 }, { STAGE(0, 1), "up0.1", 4, 4, 0 }, { STAGE(0, 2), "up0.2", 4, 4, 0 },
        { STAGE(1, 0), "up1.0", 4, 4, 1 }, { STAGE(1, 1), "up1.1", 4, 4, 1 }, { STAGE(1, 2), "up1.2", 4, 4, 1 },
        { STAGE(2, 0), "up2.0", 4, 2, 2 }, { STAGE(2, 1), "up2.1", 2, 2, 2 }, { STAGE(2, 2), "up2.2", 2, 2, 2 },
        { STAGE(3, 0), "up3.0", 2, 1, 3 }, { STAGE(3, 1), "up3.1", 1, 1, 3 }, { STAGE(3, 2), "up3.2", 1, 1, 3 },
    },
    .up = {
        { STAGE(0, 3), "up0.3", 4, 4, true },
        { STAGE(1, 3), "up1.3", 4, 4, true },
        { STAGE(2, 3), "up2.3", 2, 2, false },
    },
    .first_block = { 0, 5, 8, 11, KVR_VAE_BLOCKS },
    .widest = { 4, 4, 4, 2 },
    .mean = mean_2_2,
    .std = std_2_2,
};
