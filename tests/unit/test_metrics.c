/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <math.h>

#include "base/metrics.h"
#include "base/util.h"

#include "unit.h"

static struct metrics *metrics;

static int make_metrics(void **state)
{
        return metrics_new(&metrics);
}

static int drop_metrics(void **state)
{
        metrics = metrics_free(metrics);
        return 0;
}

static void assert_rendered(const char *expected)
{
        size_t size = 0;
        char *text = metrics_render(metrics, &size);
        assert_non_null(text);
        assert_string_equal(text, expected);
        assert_int_equal(size, strlen(text));
        free(text);
}

static struct metric_family *counter(const char *name, const char *help, size_t n, const char *const *labels)
{
        return metrics_family(metrics, METRIC_COUNTER, name, help, n, labels, NULL, 0);
}

static struct metric *histogram(const char *name)
{
        static const double bounds[] = { 0.001, 0.1, 1, 2.5 };
        return metric_get(metrics_family(metrics, METRIC_HISTOGRAM, name, "Durations", 0, NULL, bounds, 4), NULL);
}

TEST_WITH(a_family_by_code_has_every_code_from_the_start, make_metrics, drop_metrics)
{
        struct metric_family *family = metrics_by_code(metrics, "f_total", "By code", "code");
        size_t size, n = 0;
        char *text;

        metric_add(metric_get(family, (const char *[]){ "not-found" }), 2);
        text = metrics_render(metrics, &size);
        assert_non_null(text);
        assert_non_null(strstr(text, "\nf_total{code=\"not-found\"} 2\n"));
        assert_non_null(strstr(text, "\nf_total{code=\"peer-lost\"} 0\n"));
        for (const char *at = text; (at = strchr(at, '\n')); at++)
                n++;
        assert_true(n > 40);
        free(text);
        assert_null(metrics_by_code(NULL, "f_total", "By code", "code"));
}

TEST_WITH(counters_and_gauges_render_in_order_of_registration, make_metrics, drop_metrics)
{
        struct metric_family *late = metrics_family(metrics, METRIC_GAUGE, "z_first", "A gauge", 0, NULL, NULL, 0);
        struct metric_family *soon = counter("a_second_total", "A counter", 2, (const char *[]){ "kind", "code" });
        metric_add(metric_get(soon, (const char *[]){ "read", "200" }), 3);
        metric_add(metric_get(soon, (const char *[]){ "a", "500" }), 1);
        metric_add(metric_get(soon, (const char *[]){ "read", "200" }), 4);
        metric_set(metric_get(late, NULL), 10);
        metric_add(metric_get(late, NULL), -15);
        assert_rendered("# HELP z_first A gauge\n"
                        "# TYPE z_first gauge\n"
                        "z_first -5\n"
                        "# HELP a_second_total A counter\n"
                        "# TYPE a_second_total counter\n"
                        "a_second_total{kind=\"read\",code=\"200\"} 7\n"
                        "a_second_total{kind=\"a\",code=\"500\"} 1\n");
}

TEST_WITH(family_without_series_shows_its_type, make_metrics, drop_metrics)
{
        counter("empty_total", "Nothing", 1, (const char *[]){ "kind" });
        assert_rendered("# HELP empty_total Nothing\n"
                        "# TYPE empty_total counter\n");
}

TEST_WITH(scaled_values_are_fractions, make_metrics, drop_metrics)
{
        struct metric_family *family = counter("cpu_seconds_total", "Time", 0, NULL);
        metrics_scale(family, 1e-3);
        metric_set(metric_get(family, NULL), 1500);
        assert_rendered("# HELP cpu_seconds_total Time\n"
                        "# TYPE cpu_seconds_total counter\n"
                        "cpu_seconds_total 1.5\n");
}

TEST_WITH(label_values_and_help_are_escaped, make_metrics, drop_metrics)
{
        struct metric_family *family = counter("x_total", "a \"b\" \\ c\nd", 1, (const char *[]){ "v" });
        metric_add(metric_get(family, (const char *[]){ "q\"b\\n\n\xc3\xa4" }), 1);
        assert_rendered("# HELP x_total a \"b\" \\\\ c\\nd\n"
                        "# TYPE x_total counter\n"
                        "x_total{v=\"q\\\"b\\\\n\\n\xc3\xa4\"} 1\n");
}

TEST_WITH(label_values_are_copied_and_told_apart, make_metrics, drop_metrics)
{
        struct metric_family *family = counter("x_total", "x", 2, (const char *[]){ "a", "b" });
        char value[8] = "ab";
        struct metric *first = metric_get(family, (const char *[]){ value, "c" });
        struct metric *second = metric_get(family, (const char *[]){ "a", "bc" });
        strcpy(value, "zz");
        assert_ptr_not_equal(first, second);
        assert_ptr_equal(metric_get(family, (const char *[]){ "ab", "c" }), first);
        assert_ptr_equal(metric_get(family, (const char *[]){ "a", "bc" }), second);
}

TEST_WITH(long_label_values_work, make_metrics, drop_metrics)
{
        static char value[5000];
        memset(value, 'v', sizeof(value) - 1);
        struct metric_family *family = counter("x_total", "x", 1, (const char *[]){ "a" });
        struct metric *metric = metric_get(family, (const char *[]){ value });
        assert_non_null(metric);
        assert_ptr_equal(metric_get(family, (const char *[]){ value }), metric);
}

TEST_WITH(histogram_buckets_are_cumulative_and_bounds_inclusive, make_metrics, drop_metrics)
{
        struct metric *metric = histogram("h_seconds");
        static const double values[] = { 0, 0.00048828125, 0.0625, 0.5, 1, 2.5, 2.75, 100 };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(values); i++)
                metric_observe(metric, values[i]);
        assert_int_equal(metric_value(metric), 8);
        assert_rendered("# HELP h_seconds Durations\n"
                        "# TYPE h_seconds histogram\n"
                        "h_seconds_bucket{le=\"0.001\"} 2\n"
                        "h_seconds_bucket{le=\"0.1\"} 3\n"
                        "h_seconds_bucket{le=\"1\"} 5\n"
                        "h_seconds_bucket{le=\"2.5\"} 6\n"
                        "h_seconds_bucket{le=\"+Inf\"} 8\n"
                        "h_seconds_sum 106.81298828125\n"
                        "h_seconds_count 8\n");
}

TEST_WITH(nan_is_not_observed, make_metrics, drop_metrics)
{
        struct metric *metric = histogram("h_seconds");
        metric_observe(metric, NAN);
        assert_int_equal(metric_value(metric), 0);
}

TEST_WITH(family_registered_twice_is_one, make_metrics, drop_metrics)
{
        struct metric_family *family = counter("x_total", "x", 0, NULL);
        assert_ptr_equal(counter("x_total", "x", 0, NULL), family);
}

TEST_WITH(everything_takes_null, make_metrics, drop_metrics)
{
        size_t size;
        assert_null(metrics_family(NULL, METRIC_COUNTER, "x", "x", 0, NULL, NULL, 0));
        assert_null(metric_get(NULL, NULL));
        metric_add(NULL, 1);
        metric_set(NULL, 1);
        metric_observe(NULL, 1);
        assert_int_equal(metric_value(NULL), 0);
        assert_null(metrics_render(NULL, &size));
        assert_null(metrics_free(NULL));
}

TEST_WITH(locale_of_the_program_does_not_matter, make_metrics, drop_metrics)
{
        if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE.utf8"))
                skip();
        metric_observe(histogram("h_seconds"), 0.25);
        size_t size;
        char *text = metrics_render(metrics, &size);
        setlocale(LC_ALL, "C");
        assert_non_null(strstr(text, "h_seconds_sum 0.25\n"));
        free(text);
}

static void *count(void *argument)
{
        struct metric_family *family = argument;
        struct metric *observed = histogram("h_seconds");
        for (int i = 0; i < 5000; i++) {
                metric_add(metric_get(family, (const char *[]){ i % 2 ? "odd" : "even" }), 1);
                metric_observe(observed, 0.5);
                if (i % 500 == 0) {
                        size_t size;
                        free(metrics_render(metrics, &size));
                }
        }
        return NULL;
}

TEST_WITH(threads_lose_no_count, make_metrics, drop_metrics)
{
        struct metric_family *family = counter("x_total", "x", 1, (const char *[]){ "parity" });
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, count, family);
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(metric_value(metric_get(family, (const char *[]){ "odd" })), 10000);
        assert_int_equal(metric_value(metric_get(family, (const char *[]){ "even" })), 10000);
        assert_int_equal(metric_value(histogram("h_seconds")), 20000);
        size_t size;
        char *text = metrics_render(metrics, &size);
        assert_non_null(strstr(text, "h_seconds_sum 10000\n"));
        free(text);
}
