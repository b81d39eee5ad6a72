/* SPDX-License-Identifier: Apache-2.0 */
#include "device_internal.h"
#include "file_tree.h"

/* One NIC with two ports, the second in the state that context names. */
static int fill_one_nic(void *context, struct device_inventory *inventory)
{
        inventory->nics = calloc(1, sizeof(*inventory->nics));
        inventory->nics[0].ports = calloc(2, sizeof(*inventory->nics[0].ports));
        inventory->n_nics = 1;
        struct device_nic *nic = &inventory->nics[0];
        strcpy(nic->name, "mlx5_0");
        nic->n_ports = 2;
        strcpy(nic->ports[0].state, "DOWN");
        strcpy(nic->ports[1].state, context);
        return 0;
}

static int fill_nothing(void *context, struct device_inventory *inventory)
{
        return 0;
}

static int fill_error(void *context, struct device_inventory *inventory)
{
        return *(int *)context;
}

static struct device_inventory *inventory_of(bool cuda, int (*fill)(void *, struct device_inventory *), void *context)
{
        struct device_source source = { .fill = fill, .context = context };
        const struct device_ucx ucx = { .open = true, .cuda = cuda };
        struct device_inventory *inventory = NULL;
        assert_int_equal(device_inventory_new(&ucx, &source, &inventory), 0);
        return inventory;
}

static bool is_missing(const struct device_gpu_direct *answer, const char *word)
{
        for (size_t i = 0; i < answer->n_missing; i++)
                if (strstr(answer->missing[i], word))
                        return true;
        return false;
}

/* Everything there; a test takes one thing away. */
static struct device_inventory *complete(const char *port_state)
{
        struct device_inventory *inventory = inventory_of(true, fill_one_nic, (void *)(uintptr_t)port_state);
        inventory->n_gpus = inventory->n_gpus_direct = 1;
        inventory->peer_memory = true;
        return inventory;
}

static struct device_gpu_direct answer_and_free(struct device_inventory *inventory)
{
        struct device_gpu_direct answer;
        device_gpu_direct(inventory, &answer);
        device_inventory_free(inventory);
        assert_int_equal(answer.possible, answer.n_missing == 0);
        for (size_t i = 0; i < answer.n_missing; i++) {
                size_t length = strlen(answer.missing[i]);
                assert_true(length > 0 && answer.missing[i][length - 1] == '.');
        }
        return answer;
}

TEST(gpu_direct_is_possible_when_all_is_there)
{
        struct device_gpu_direct answer = answer_and_free(complete("ACTIVE"));
        assert_true(answer.possible);
        assert_true(answer.memory);
        assert_int_equal(answer.n_missing, 0);
}

TEST(ucx_gets_the_memory_whatever_the_cards_are_like)
{
        struct device_inventory *inventory = complete("DOWN");
        struct device_gpu_direct answer = answer_and_free(inventory);
        assert_false(answer.possible);
        assert_true(answer.memory);

        inventory = complete("ACTIVE");
        inventory->ucx.no_rdma = "--transports names no RDMA transport that is available";
        answer = answer_and_free(inventory);
        assert_int_equal(answer.n_missing, 1);
        assert_true(is_missing(&answer, "--transports names no"));
        assert_true(answer.memory);
}

TEST(a_user_may_know_better_or_not_want_it)
{
        struct device_inventory *inventory = complete("ACTIVE");
        inventory->ucx.direct = DEVICE_GPUDIRECT_ON;
        inventory->peer_memory = false;
        inventory->n_gpus_direct = 0;
        assert_true(answer_and_free(inventory).memory);

        inventory = complete("ACTIVE");
        inventory->ucx.direct = DEVICE_GPUDIRECT_OFF;
        struct device_gpu_direct answer = answer_and_free(inventory);
        assert_false(answer.memory);
        assert_int_equal(answer.n_missing, 1);
        assert_true(is_missing(&answer, "--gpu-direct off"));

        inventory = complete("ACTIVE");
        inventory->ucx = (struct device_ucx){ 0 };
        answer = answer_and_free(inventory);
        assert_false(answer.memory);
        assert_int_equal(answer.n_missing, 1);
        assert_true(is_missing(&answer, "--data-listen"));
}

TEST(machine_without_nic_says_so)
{
        struct device_inventory *inventory = inventory_of(true, fill_nothing, NULL);
        inventory->n_gpus = inventory->n_gpus_direct = 1;
        inventory->peer_memory = true;
        struct device_gpu_direct answer = answer_and_free(inventory);
        assert_int_equal(answer.n_missing, 1);
        assert_true(is_missing(&answer, "no RDMA network card"));
}

TEST(port_that_is_not_active_says_so)
{
        FOR_EACH_TEXT (text, "DOWN", "INIT", "ARMED", "") {
                struct device_gpu_direct answer = answer_and_free(complete(text));
                assert_int_equal(answer.n_missing, 1);
                assert_true(is_missing(&answer, "ACTIVE"));
        }
}

TEST(each_missing_piece_of_software_says_so)
{
        static const char *const says[] = { "NVIDIA driver", "lets no RDMA card", "--with-cuda", "nvidia_peermem" };

        for (size_t i = 0; i < UNIT_COUNT(says); i++) {
                struct device_inventory *inventory = complete("ACTIVE");

                if (i == 0)
                        inventory->n_gpus = 0;
                inventory->n_gpus_direct = i != 1;
                inventory->ucx.cuda = i != 2;
                inventory->peer_memory = i != 3;
                struct device_gpu_direct answer = answer_and_free(inventory);
                assert_int_equal(answer.n_missing, 1);
                assert_true(is_missing(&answer, test_row(says[i])));
                if (i == 2)
                        assert_false(answer.memory);
        }
}

TEST(error_of_libibverbs_is_told_with_all_else_that_is_missing)
{
        int error = -EACCES;
        struct device_inventory *inventory = inventory_of(false, fill_error, &error);
        assert_string_equal(inventory->rdma_error, "Permission denied");
        assert_int_equal(inventory->n_nics, 0);
        inventory->n_gpus = 0;
        inventory->peer_memory = false;
        memset(inventory->rdma_error, 'e', sizeof(inventory->rdma_error) - 1);
        struct device_gpu_direct answer = answer_and_free(inventory);
        assert_false(answer.possible);
        assert_int_equal(answer.n_missing, 5);
        assert_true(is_missing(&answer, "eeee"));
}

TEST(source_without_memory_fails_the_inventory)
{
        int error = -ENOMEM;
        struct device_source source = { .fill = fill_error, .context = &error };
        struct device_inventory *inventory = NULL;
        assert_int_equal(device_inventory_new(&(struct device_ucx){ 0 }, &source, &inventory), -ENOMEM);
        assert_null(inventory);
        assert_null(device_inventory_free(NULL));
}

TEST(real_inventory_has_the_cpu_and_never_fails)
{
        struct device_inventory *inventory = NULL;
        assert_int_equal(device_inventory_new(&(struct device_ucx){ 0 }, NULL, &inventory), 0);
        assert_int_equal(inventory->n_memories, 1);
        assert_string_equal(inventory->memories[0].name, "cpu");
        assert_true(inventory->memories[0].total_bytes > 1 << 20);
        assert_true(inventory->memories[0].model[0] != '\0');
        answer_and_free(inventory);
}

static int make_root(void **state)
{
        if (tree_make() < 0)
                return -1;
        put("cpuinfo", "processor\t: 0\nmodel name\t: A CPU @ 2.0 GHz\nmodel\t\t: 7\n");
        return 0;
}

static struct device_inventory *faked_memories(void)
{
        char paths[2][96];
        static const char *const names[] = { "cpuinfo", "modules" };
        for (size_t i = 0; i < 2; i++)
                snprintf(paths[i], sizeof(paths[i]), "%s/%s", root, names[i]);
        struct device_inventory *inventory = calloc(1, sizeof(*inventory));
        assert_int_equal(device_memories_fill(&(struct device_paths){ paths[0], paths[1] }, inventory), 0);
        return inventory;
}

TEST_WITH(peer_memory_is_either_kernel_module, make_root, tree_drop)
{
        struct device_inventory *inventory = faked_memories();
        assert_false(inventory->peer_memory);
        device_inventory_free(inventory);
        put("modules/nv_peer_mem/version", "1");
        inventory = faked_memories();
        assert_true(inventory->peer_memory);
        device_inventory_free(inventory);
        put("modules/nvidia_peermem/version", "1");
        inventory = faked_memories();
        assert_true(inventory->peer_memory);
        device_inventory_free(inventory);
}

TEST_WITH(strange_files_do_no_harm, make_root, tree_drop)
{
        char huge[3000];
        memset(huge, 'x', sizeof(huge) - 1);
        memcpy(huge, "model name: ", 12);
        huge[sizeof(huge) - 1] = '\0';
        put("cpuinfo", "%s", huge);
        struct device_inventory *inventory = faked_memories();
        assert_int_equal(strlen(inventory->memories[0].model), DEVICE_NAME_SIZE - 1);
        device_inventory_free(inventory);

        put("cpuinfo", "processor : 0\nmodel names: no\nmodel name:\n");
        inventory = faked_memories();
        assert_true(inventory->memories[0].model[0] != '\0');
        assert_string_not_equal(inventory->memories[0].model, "no");
        device_inventory_free(inventory);
}
