/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/options.h>
#include <ferry/util.h>

/*
 * Options by one table: command line, environment, single settings, help. A field holds its value at its offset in the
 * program's struct; texts are kept in the base, to which fields point. The command line wins over the environment, and
 * that over the fallback. What getopt_long refuses is told without its value, which may be a secret.
 *
 * One thread at a time; getopt_long and the environment are the process's.
 */

int ferry_option_refuse(struct ferry_option_base *base, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(base->message, sizeof(base->message), format, arguments);
        va_end(arguments);
        for (char *c = base->message; *c; c++)
                if (iscntrl((unsigned char)*c))
                        *c = '?';
        return -EINVAL;
}

char *ferry_strings_add(struct ferry_strings *strings, const char *text)
{
        char **items = reallocarray(strings->items, strings->n + 1, sizeof(*items));

        if (!items)
                return NULL;
        strings->items = items;
        items[strings->n] = strdup(text);
        return items[strings->n] ? items[strings->n++] : NULL;
}

static void strings_clear(struct ferry_strings *strings)
{
        for (size_t i = 0; i < strings->n; i++)
                free(strings->items[i]);
        free(strings->items);
        *strings = (struct ferry_strings){ 0 };
}

/* ---- values ---- */

struct unit {
        const char *name;
        uint64_t factor;
};

/* Digits, fewer than 20, so that the scale, a power of ten, fits as well. */
static bool digits_parse(const char **text, uint64_t *ret_value, uint64_t *ret_scale)
{
        const char *end = ferry_uint_read(*text, ret_value);

        if (!end || end - *text >= 20)
                return false;
        *ret_scale = 1;
        for (; *text < end; (*text)++)
                *ret_scale *= 10;
        return true;
}

/* A number with a fraction, then one of the units. */
static bool quantity_parse(const char *text, const struct unit *units, size_t n, uint64_t *ret_value)
{
        uint64_t whole, part = 0, scale = 1;

        if (!digits_parse(&text, &whole, &scale))
                return false;
        scale = 1;
        if (*text == '.') {
                text++;
                if (!digits_parse(&text, &part, &scale))
                        return false;
        }
        for (size_t i = 0; i < n; i++) {
                /* 128 bits: part is below 2^64 and no factor above 2^40. */
                unsigned __int128 value = (unsigned __int128)whole * units[i].factor;

                if (strcmp(text, units[i].name) != 0)
                        continue;
                value += (unsigned __int128)part * units[i].factor / scale;
                if (value >= UINT64_C(1) << 53 || (units[i].factor == 1 && part != 0))
                        return false;
                *ret_value = (uint64_t)value;
                return true;
        }
        return false;
}

bool ferry_size_parse(const char *text, uint64_t *ret_size)
{
        static const struct unit units[] = {
                { "", 1 },
                { "k", UINT64_C(1) << 10 },
                { "K", UINT64_C(1) << 10 },
                { "M", UINT64_C(1) << 20 },
                { "G", UINT64_C(1) << 30 },
                { "T", UINT64_C(1) << 40 },
                { "kiB", UINT64_C(1) << 10 },
                { "KiB", UINT64_C(1) << 10 },
                { "MiB", UINT64_C(1) << 20 },
                { "GiB", UINT64_C(1) << 30 },
                { "TiB", UINT64_C(1) << 40 },
                { "kB", UINT64_C(1000) },
                { "MB", UINT64_C(1000000) },
                { "GB", UINT64_C(1000000000) },
                { "TB", UINT64_C(1000000000000) },
        };

        return quantity_parse(text, units, FERRY_ARRAY_SIZE(units), ret_size);
}

bool ferry_time_parse(const char *text, uint64_t *ret_ms)
{
        static const struct unit units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 } };

        return quantity_parse(strcmp(text, "0") == 0 ? "0s" : text, units, FERRY_ARRAY_SIZE(units), ret_ms);
}

/* Sets a number, size or time by its text. Returns 0, or -EINVAL with the limits in the sentence. */
static int number_set(struct ferry_option_base *base, const struct ferry_option *option, const char *source,
                      const char *value, uint64_t *target)
{
        static const struct {
                const char *is, *unit;
        } forms[] = { [FERRY_OPTION_NUMBER] = { "number", "" },
                      [FERRY_OPTION_SIZE] = { "size such as 4096, 64K or 1.5GiB", " bytes" },
                      [FERRY_OPTION_TIME] = { "time such as 500ms, 30s, 2m or 1h", " ms" } };
        uint64_t number = 0;
        bool good = option->kind == FERRY_OPTION_SIZE   ? ferry_size_parse(value, &number)
                    : option->kind == FERRY_OPTION_TIME ? ferry_time_parse(value, &number)
                                                        : ferry_uint_parse(value, (UINT64_C(1) << 53) - 1, &number);

        if (good && number >= option->min && (!option->max || number <= option->max)) {
                *target = number;
                return 0;
        }
        if (!option->max)
                return ferry_option_refuse(base, "%s: \"%s\" is not a %s, %" PRIu64 "%s or more", source, value,
                                           forms[option->kind].is, option->min, forms[option->kind].unit);
        return ferry_option_refuse(base, "%s: \"%s\" is not a %s, %" PRIu64 " to %" PRIu64 "%s", source, value,
                                   forms[option->kind].is, option->min, option->max, forms[option->kind].unit);
}

static int text_check(struct ferry_option_base *base, const struct ferry_option *option, const char *source,
                      const char *value)
{
        if (!option->accepts && !*value)
                return ferry_option_refuse(base, "%s: the value is empty; it takes %s", source, option->argument);
        if (option->accepts && !option->accepts(value))
                return ferry_option_refuse(base, "%s: \"%s\" is not %s", source, value, option->accepted);
        return 0;
}

static int flag_set(struct ferry_option_base *base, const char *source, const char *value, bool *target)
{
        *target = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
        if (!*target && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
                return ferry_option_refuse(base, "%s: \"%s\" is not one of 1, true, 0, false", source, value);
        return 0;
}

/* The value is the place of the word among those of option->argument. */
static int choice_set(struct ferry_option_base *base, const struct ferry_option *option, const char *source,
                      const char *value, unsigned *target)
{
        const char *word = option->argument;

        for (unsigned i = 0; *word; i++) {
                size_t length = strcspn(word, "|");

                if (strncmp(word, value, length) == 0 && !value[length]) {
                        *target = i;
                        return 0;
                }
                word += length + (word[length] == '|');
        }
        return ferry_option_refuse(base, "%s: \"%s\" is not one of %s", source, value, option->argument);
}

int ferry_option_set(struct ferry_option_base *base, const struct ferry_option *option, const char *source,
                     const char *value)
{
        void *target = (char *)base + option->offset;
        int r;

        switch (option->kind) {
        case FERRY_OPTION_FLAG:
        case FERRY_OPTION_QUERY:
                return flag_set(base, source, value, target);
        case FERRY_OPTION_TEXT:
                r = text_check(base, option, source, value);
                if (r)
                        return r;
                value = ferry_strings_add(&base->texts, value);
                if (!value)
                        return -ENOMEM;
                *(const char **)target = value;
                return 0;
        case FERRY_OPTION_LIST:
                r = text_check(base, option, source, value);
                return r ? r : ferry_strings_add(target, value) ? 0 : -ENOMEM;
        case FERRY_OPTION_CHOICE:
                return choice_set(base, option, source, value, target);
        default:
                return number_set(base, option, source, value, target);
        }
}

/* ---- all options ---- */

void ferry_options_default(struct ferry_option_base *base)
{
        for (const struct ferry_option *option = base->table; option < base->table + base->n; option++)
                if (option->fallback && option->kind == FERRY_OPTION_TEXT)
                        *(const char **)(void *)((char *)base + option->offset) = option->fallback;
                else if (option->fallback && option->kind != FERRY_OPTION_LIST)
                        (void)ferry_option_set(base, option, option->name, option->fallback);
}

int ferry_options_copy(struct ferry_option_base *ret_copy, const struct ferry_option_base *base, size_t size)
{
        memcpy(ret_copy, base, size);
        ret_copy->texts = (struct ferry_strings){ 0 };
        for (size_t i = 0; i < base->n; i++)
                if (base->table[i].kind == FERRY_OPTION_LIST)
                        memset((char *)ret_copy + base->table[i].offset, 0, sizeof(struct ferry_strings));
        for (size_t i = 0; i < base->n; i++) {
                const void *from = (const char *)base + base->table[i].offset;
                void *to = (char *)ret_copy + base->table[i].offset;
                const struct ferry_strings *list = from;
                const char **text = to;

                if (base->table[i].kind == FERRY_OPTION_TEXT && *text) {
                        *text = ferry_strings_add(&ret_copy->texts, *text);
                        if (!*text)
                                return -ENOMEM;
                }
                for (size_t k = 0; base->table[i].kind == FERRY_OPTION_LIST && k < list->n; k++)
                        if (!ferry_strings_add(to, list->items[k]))
                                return -ENOMEM;
        }
        return 0;
}

void ferry_options_clear(struct ferry_option_base *base)
{
        strings_clear(&base->texts);
        for (size_t i = 0; i < base->n; i++)
                if (base->table[i].kind == FERRY_OPTION_LIST)
                        strings_clear((struct ferry_strings *)(void *)((char *)base + base->table[i].offset));
}

const struct ferry_option *ferry_option_find(const struct ferry_option_base *base, const char *name)
{
        for (size_t i = 0; i < base->n; i++)
                if (strcmp(base->table[i].name, name) == 0)
                        return &base->table[i];
        return NULL;
}

bool ferry_option_given(const struct ferry_option_base *base, const void *field)
{
        for (size_t i = 0; i < base->n; i++)
                if ((const char *)base + base->table[i].offset == field)
                        return base->given >> i & 1;
        return false;
}

/* ---- the environment ---- */

/* The elements of a list from the environment, between commas, without blanks around them. */
static int list_set(struct ferry_option_base *base, const struct ferry_option *option, const char *value)
{
        FERRY_CLEANUP(cleanup_free) char *copy = strdup(value);
        char *rest = copy, *item;
        int r = copy ? 0 : -ENOMEM;

        while (r == 0 && (item = strsep(&rest, ","))) {
                item += strspn(item, " ");
                for (size_t length = strlen(item); length > 0 && item[length - 1] == ' '; length--)
                        item[length - 1] = '\0';
                r = ferry_option_set(base, option, option->variable, item);
        }
        return r;
}

int ferry_options_environment(struct ferry_option_base *base)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < base->n; i++) {
                const struct ferry_option *option = &base->table[i];
                const char *value = option->variable && !(base->given >> i & 1) ? getenv(option->variable) : NULL;

                if (value && *value)
                        r = option->kind == FERRY_OPTION_LIST ? list_set(base, option, value)
                                                              : ferry_option_set(base, option, option->variable, value);
        }
        return r;
}

/* ---- the command line ---- */

/* getopt_long's value of row 0, beyond all letters */
enum { FIRST_ROW = UINT8_MAX + 1 };

static int refuse_valueless(struct ferry_option_base *base, const struct ferry_option *option)
{
        return ferry_option_refuse(base, "--%s needs a value: %s", option->name, option->accepted ?: option->argument);
}

/* Tells what getopt_long has refused, without a value: it may be a secret. */
static int refuse_argument(struct ferry_option_base *base, const char *text, bool needs_value)
{
        bool is_long = text[1] == '-';
        char name[64] = { is_long ? '\0' : (char)optopt, '\0' };
        const struct ferry_option *option;
        const char *near;

        if (is_long)
                (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(text + 2, "="), text + 2);
        option = ferry_option_find(base, name);
        for (size_t i = 0; !is_long && i < base->n; i++)
                if (base->table[i].letter == optopt)
                        option = &base->table[i];
        if (option && needs_value)
                return refuse_valueless(base, option);
        if (needs_value || option)
                return ferry_option_refuse(base, "%s%s %s (see %s --help)", is_long ? "--" : "-", name,
                                           needs_value ? "needs a value" : "takes no value", base->program);
        near = is_long ? ferry_suggest(name, &base->table[0].name, base->n, sizeof(base->table[0])) : NULL;
        return ferry_option_refuse(base, "no option %s%s%s%s%s (see %s --help)", is_long ? "--" : "-", name,
                                   near ? ": did you mean --" : "", near ?: "", near ? "?" : "", base->program);
}

/* An option, by its letter or its row, with the value in optarg. */
static int take_option(struct ferry_option_base *base, int value, char *const *argv)
{
        const struct ferry_option *option = base->table + (value >= FIRST_ROW ? value - FIRST_ROW : 0);
        char source[sizeof("--") + FERRY_VARIABLE_SIZE];

        while (value < FIRST_ROW && option->letter != value)
                option++;
        /* The next option was taken for the value: "--name --no-auth". */
        if (optarg && optarg == argv[optind - 1] && strncmp(optarg, "--", 2) == 0)
                return refuse_valueless(base, option);
        base->given |= UINT64_C(1) << (option - base->table);
        base->query |= option->kind == FERRY_OPTION_QUERY;
        (void)snprintf(source, sizeof(source), "--%s", option->name);
        return ferry_option_set(base, option, source, option->argument ? optarg : "true");
}

static int take_operand(struct ferry_option_base *base, ferry_option_operand *operand, char *text, bool literal)
{
        return operand ? operand(base, text, literal)
                       : ferry_option_refuse(base, "unexpected argument \"%s\"; every value follows an option", text);
}

static int read_arguments(struct ferry_option_base *base, int argc, char *const *argv, ferry_option_operand *operand)
{
        struct option rows[FERRY_OPTIONS_MAX + 1] = { 0 };
        /* "-": operands in their order, also with POSIXLY_CORRECT; ":": a missing value is told apart. */
        char letters[2 + 2 * FERRY_OPTIONS_MAX + 1] = "-:", *letter = letters + strlen(letters);
        int r = 0, value;

        for (int i = 0; i < (int)base->n; i++) {
                const struct ferry_option *option = &base->table[i];

                rows[i] = (struct option){ .name = option->name,
                                           .has_arg = option->argument ? required_argument : no_argument,
                                           .val = FIRST_ROW + i };
                if (option->letter)
                        *letter++ = option->letter;
                if (option->letter && option->argument)
                        *letter++ = ':';
        }
        opterr = 0;
        optind = 0; /* starts anew */
        while (r == 0) {
                const char *text = argc > 0 ? argv[optind ?: 1] : NULL;

                value = getopt_long(argc, argv, letters, rows, NULL);
                if (value < 0)
                        break;
                r = value == '?' || value == ':' ? refuse_argument(base, text, value == ':')
                    : value == 1                 ? take_operand(base, operand, optarg, false)
                                                 : take_option(base, value, argv);
        }
        for (int i = optind; r == 0 && i < argc; i++)
                r = take_operand(base, operand, argv[i], true);
        return r;
}

int ferry_options_read(struct ferry_option_base *base, int argc, char *const *argv, ferry_option_operand *operand)
{
        int r = read_arguments(base, argc, argv, operand);

        if (base->query)
                return 0;
        if (r == 0)
                r = ferry_options_environment(base);
        for (const struct ferry_option *option = base->table; r == 0 && option < base->table + base->n; option++)
                if (option->kind == FERRY_OPTION_LIST && option->fallback &&
                    !((struct ferry_strings *)(void *)((char *)base + option->offset))->n)
                        r = ferry_option_set(base, option, option->name, option->fallback);
        return r;
}

/* ---- help ---- */

enum { HELP_WIDTH = 80, HELP_INDENT = 8 };

void ferry_wrap(FILE *file, const char *text, int indent)
{
        int column = 0;

        for (const char *word = text; *word; word += strspn(word, " ")) {
                int length = (int)strcspn(word, " ");
                bool fits = column && column + 1 + length <= HELP_WIDTH;

                (void)fprintf(file, "%s%*s%.*s", column && !fits ? "\n" : "", fits ? 1 : indent, "", length, word);
                column = (fits ? column + 1 : indent) + length;
                word += length;
        }
        (void)fputc('\n', file);
}

void ferry_option_help(FILE *file, const struct ferry_option *option)
{
        char text[1024], letter[] = "-x, ";

        letter[1] = option->letter;
        (void)fprintf(file, "  %s--%s%s%s\n", option->letter ? letter : "", option->name, option->argument ? " " : "",
                      option->argument ?: "");
        (void)snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", option->text, option->fallback ? " (default " : "",
                       option->fallback ?: "", option->fallback ? ")" : "", option->variable ? " [" : "",
                       option->variable ?: "", option->variable ? "]" : "");
        text[0] = (char)toupper((unsigned char)text[0]);
        ferry_wrap(file, text, HELP_INDENT);
}
