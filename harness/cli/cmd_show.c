/* cmd_show.c - `kvreel show`: prints the registry's entry of one method. */
#include <ctype.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/wrap.h"

enum { OPTION_COLUMN = 28 }; /* column where help texts of options begin */

struct show_opts {
    bool json;
    struct kvr_arg_list set;
};

static const char *const type_names[] = {
    [KVR_OPT_T_NONE] = "none", [KVR_OPT_T_INT] = "int",   [KVR_OPT_T_FLOAT] = "float",
    [KVR_OPT_T_BOOL] = "bool", [KVR_OPT_T_ENUM] = "enum", [KVR_OPT_T_STRING] = "string",
};

/* An option's value as JSON of the option's type. */
static json_t *typed(const struct kvr_opt *o, double number, const char *text)
{
    switch (o->type) {
    case KVR_OPT_T_INT:
        return json_integer((json_int_t)number);
    case KVR_OPT_T_FLOAT:
        return json_real(number);
    case KVR_OPT_T_BOOL:
        return json_boolean(number != 0);
    case KVR_OPT_T_ENUM:
        return json_string(o->names[(int)number]);
    case KVR_OPT_T_STRING:
    case KVR_OPT_T_NONE:
        break;
    }
    return json_string(text ? text : "");
}

/* Writes an option's allowed values for the text table, such as "2..8" or "tokens|channels". */
static void limits(const struct kvr_opt *o, char *buf, size_t n)
{
    size_t used = 0;

    buf[0] = '\0';
    if (o->type == KVR_OPT_T_INT || o->type == KVR_OPT_T_FLOAT)
        snprintf(buf, n, "%g..%g", o->min, o->max);
    for (int i = 0; o->type == KVR_OPT_T_ENUM && o->names[i] && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%s%s", i ? "|" : "", o->names[i]);
}

/* One option of a method as JSON {name, type, default, value, min, max, choices, help}; `name` is
 * the name that -O accepts. */
static json_t *option_json(const char *prefix, const struct kvr_opt *o, const char *value)
{
    char text[KVR_OPT_STRING_MAX];
    json_t *j = json_pack("{s:s+, s:s}", "name", prefix, o->name, "type", type_names[o->type]);

    json_object_set_new(j, "default", typed(o, o->def, o->def_text));
    json_object_set_new(j, "value", json_string(value));
    if (o->type == KVR_OPT_T_INT || o->type == KVR_OPT_T_FLOAT) {
        json_object_set_new(j, "min", typed(o, o->min, NULL));
        json_object_set_new(j, "max", typed(o, o->max, NULL));
    }
    if (o->type == KVR_OPT_T_ENUM) {
        json_t *choices = json_array();

        for (int i = 0; o->names[i]; i++)
            json_array_append_new(choices, json_string(o->names[i]));
        json_object_set_new(j, "choices", choices);
    }
    limits(o, text, sizeof text);
    json_object_set_new(j, "limits", json_string(text));
    json_object_set_new(j, "help", json_string(o->help));
    return j;
}

static void add_option(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    json_array_append_new(ctx, option_json(prefix, o, value));
}

static json_t *options_json(const struct kvr_scheme *p)
{
    json_t *list = json_array();

    kvr_scheme_visit_options(p, add_option, list);
    return list;
}

static void add_axis(void *ctx, const char *axis, const char *text)
{
    json_object_set_new(ctx, axis, json_string(text));
}

static json_t *axes_json(const struct kvr_scheme *p)
{
    json_t *o = json_object();

    kvr_scheme_visit_axes(p, add_axis, o);
    return o;
}

static json_t *method_json(const struct kvr_scheme *p)
{
    const struct kvr_method *m = p->method;
    double bits = kvr_scheme_bits(p, 12, 128);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s?, s:s?, s:s?}", "name",
                     m->name, "reading", kvr_scheme_reading(p), "family", m->family, "title",
                     m->title, "paper", m->paper, "study", m->study, "bits_per_element",
                     bits >= 0 ? json_real(bits) : json_null(), "axes", axes_json(p), "options",
                     options_json(p), "differs", p->shipped ? p->shipped->differs : m->differs,
                     "note", m->note, "warning", kvr_scheme_warning(p));
}

static void print_axes(const json_t *axes)
{
    const char *key;
    json_t *value;
    size_t width = 0;

    json_object_foreach((json_t *)axes, key, value) width =
        strlen(key) > width ? strlen(key) : width;
    json_object_foreach((json_t *)axes, key, value)
        kvr_wrap_entry(stdout, width + 3, key, json_string_value(value));
}

/* Prints a paragraph with a title line. */
static void print_paragraph(const char *title, const char *text)
{
    if (!text)
        return;
    printf("\n%s\n  ", title);
    kvr_wrap(stdout, 2, 2, text);
}

/* Prints an option as "name=value" and its help text with the allowed values. */
static void print_option(const json_t *option)
{
    const char *limits = json_string_value(json_object_get(option, "limits"));
    char term[256], text[2048];

    snprintf(term, sizeof term, "%s=%s", json_string_value(json_object_get(option, "name")),
             json_string_value(json_object_get(option, "value")));
    snprintf(text, sizeof text, "%s%s%s%s", json_string_value(json_object_get(option, "help")),
             *limits ? " [" : "", limits, *limits ? "]" : "");
    kvr_wrap_entry(stdout, OPTION_COLUMN, term, text);
}

/* Returns whether any option's name has a stage's number, as in "k.2.bits". */
static bool has_numbers(const json_t *options)
{
    const json_t *option;
    size_t i;

    json_array_foreach((json_t *)options, i, option)
    {
        const char *name = json_string_value(json_object_get(option, "name"));
        const char *dot = strrchr(name, '.');

        if (dot && dot > name && isdigit((unsigned char)dot[-1]))
            return true;
    }
    return false;
}

static void print_text(const json_t *doc)
{
    const json_t *options = json_object_get(doc, "options"), *option;
    size_t i;

    printf("%s (%s version of the method)\n  %s\n  family %s; paper: %s\n",
           json_string_value(json_object_get(doc, "name")),
           json_string_value(json_object_get(doc, "reading")),
           json_string_value(json_object_get(doc, "title")),
           json_string_value(json_object_get(doc, "family")),
           json_string_value(json_object_get(doc, "paper")));
    print_paragraph("warning", json_string_value(json_object_get(doc, "warning")));
    print_paragraph("differences from the paper or the paper's code",
                    json_string_value(json_object_get(doc, "note")));
    print_paragraph("how versions of the method differ",
                    json_string_value(json_object_get(doc, "differs")));
    printf("\nparts and settings of the method\n");
    print_axes(json_object_get(doc, "axes"));
    if (json_array_size(options) == 0) {
        printf("\nThe method has no options.\n");
        return;
    }
    print_paragraph("to replace a part of the method, give -O PART=VALUE",
                    "PART is codec, k.codec (keys), v.codec (values), tiers or retention. VALUE is "
                    "another method's name, or a specification such as asym(bits=2).");
    printf(
        "\noptions and their current values (-O name=value sets an option, -O k.name=value only\n"
        "for keys, -O v.name=value only for values)\n");
    if (has_numbers(options))
        printf(
            "  Several stages of a codec have options of the same name. -O k.name=value sets all\n"
            "  of them, -O k.2.name=value only that of the codec's second stage.\n");
    json_array_foreach(options, i, option) print_option(option);
}

static int run(const struct kvr_call *call)
{
    const struct show_opts *o = call->opts;
    struct kvr_setting set[KVR_ARG_LIST_MAX];
    char buf[4096];
    struct kvr_scheme *scheme;
    json_t *doc;
    enum kvr_status st = kvr_cli_settings(&o->set, set, buf, sizeof buf);

    if (st == KVR_OK)
        st = kvr_scheme_open(&scheme, call->words[0], set, o->set.n);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    doc = method_json(scheme);
    kvr_scheme_close(&scheme);
    return kvr_cli_result(doc, KVR_EXIT_OK, o->json, print_text);
}

static const struct kvr_arg args[] = {
    KVR_ARG_LIST(
        struct show_opts, set, "option", 'O', "KEY=VALUE",
        "set an option of the method, as in bits=3 (k.bits=3: for keys only); may be repeated"),
    KVR_ARG_FLAG(struct show_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_show = {
    .name = "show",
    .summary = "describe one method: its parts, options and paper",
    .usage = "METHOD[@study] [options]",
    .examples = "  kvreel show RTN_INT4\n"
                "  kvreel show RTN_INT4@study --json\n"
                "  kvreel show RTN_INT4 -O bits=3 -O k.group=32\n",
    .args = args,
    .opts_size = sizeof(struct show_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
