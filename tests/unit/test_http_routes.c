/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "serve_internal.h"
#include "unit.h"

static char id[FERRY_ID_TEXT_SIZE];

static const char *find(const char *method, const char *path)
{
        const struct http_routes all = { http_routes, http_routes_count };
        const struct http_route *route = route_find(&all, method, path, id);

        return route ? route->operation_id : "none";
}

static bool allowed(const char *path, char *allow, size_t size)
{
        const struct http_routes all = { http_routes, http_routes_count };

        return route_allow(&all, path, allow, size);
}

TEST(paths_lead_to_their_route)
{
        assert_string_equal(find("GET", "/"), "getRoot");
        assert_string_equal(find("GET", "/v1/operations"), "listOperations");
        assert_string_equal(find("POST", "/v1/operations"), "createOperation");
        assert_string_equal(find("POST", "/v1/operations/batch"), "createOperations");
        assert_string_equal(find("PUT", "/v1/regions/rgn_1/content"), "putRegionContent");
        assert_string_equal(find("POST", "/v1/operations/op_1/renew"), "renewOperation");
        assert_string_equal(find("POST", "/v1/operations/op_1/decline"), "declineOperation");
        assert_string_equal(find("GET", "/openapi.yaml"), "getOpenapi");
}

TEST(the_id_is_what_stands_in_its_place)
{
        assert_string_equal(find("GET", "/v1/operations/op_0123456789abcdef/metadata"), "getOperationMetadata");
        assert_string_equal(id, "op_0123456789abcdef");
        find("GET", "/v1/operations");
        assert_string_equal(id, "");
}

TEST(an_id_too_long_to_be_one_is_empty)
{
        assert_string_equal(find("GET", "/v1/regions/rgn_0123456789abcdef0123456789abcdef"), "getRegion");
        assert_string_equal(id, "");
}

TEST(a_path_that_is_spelled_out_is_no_id)
{
        char allow[64];

        assert_string_equal(find("GET", "/v1/operations/batch"), "none");
        assert_string_equal(find("DELETE", "/v1/operations/batch"), "none");
        assert_true(allowed("/v1/operations/batch", allow, sizeof(allow)));
        assert_string_equal(allow, "POST");
        assert_string_equal(find("GET", "/v1/operations/batch/metadata"), "getOperationMetadata");
}

TEST(head_is_served_by_get)
{
        assert_string_equal(find("HEAD", "/v1/regions/rgn_1/content"), "getRegionContent");
        assert_string_equal(find("HEAD", "/v1/operations/op_1/cancel"), "none");
}

TEST(other_paths_lead_nowhere)
{
        static const char *const paths[] = { "",
                                             "//",
                                             "/v1",
                                             "/v1/",
                                             "/v1/operations/",
                                             "/v1/operations//metadata",
                                             "/v1/operations/op_1/",
                                             "/v1/operations/op_1/metadata/",
                                             "/v1/operations/op_1/x/metadata",
                                             "/V1/operations",
                                             "/v1/operationss",
                                             "v1/operations" };
        char allow[64];

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                assert_string_equal(find("GET", paths[i]), "none");
                assert_false(allowed(paths[i], allow, sizeof(allow)));
        }
}

TEST(allow_lists_all_methods_of_the_path)
{
        char allow[64];

        assert_true(allowed("/v1/regions/rgn_1/content", allow, sizeof(allow)));
        assert_string_equal(allow, "GET, HEAD, PUT");
        assert_true(allowed("/v1/operations/op_1/cancel", allow, sizeof(allow)));
        assert_string_equal(allow, "POST");
        assert_string_equal(find("PATCH", "/v1/regions"), "none");
}

TEST(the_table_is_well_formed)
{
        for (size_t i = 0; i < http_routes_count; i++) {
                const struct http_route *route = &http_routes[i];
                assert_int_equal(route->path[0], '/');
                assert_non_null(route->handler);
                assert_true((route->body == HTTP_BODY_STREAM) == (route->take != NULL));
                assert_true(islower((unsigned char)route->operation_id[0]));
                assert_true(route->parameters < 1u << HTTP_PARAMETER_COUNT);
                for (size_t k = 0; k < i; k++) {
                        assert_string_not_equal(route->operation_id, http_routes[k].operation_id);
                        assert_true(strcmp(route->path, http_routes[k].path) ||
                                    strcmp(route->method, http_routes[k].method));
                }
        }
}
