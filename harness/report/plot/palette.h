/* palette.h - colours of figures, of the HTML report and of test images (palette.def). */
#ifndef KVR_PLOT_PALETTE_H
#define KVR_PLOT_PALETTE_H

struct kvr_colour {
    const char *name, *rgb; /* "RTN", "#0072B2" */
};
extern const struct kvr_colour kvr_palette_families[]; /* colours of method families (this array),
                                                        * memory allocation tags and timed phases of
                                                        * a rollout (next two arrays); the last
                                                        * entry of each array has the name NULL */
extern const struct kvr_colour kvr_palette_tags[];
extern const struct kvr_colour kvr_palette_phases[];

/* Returns the colour of a method family, which is the same in all figures. The result is never
 * NULL. */
const char *kvr_family_colour(const char *family);

#endif
