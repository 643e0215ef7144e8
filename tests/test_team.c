/* test_team - parts cover all rows once, whatever the number of threads, and add up. */
#include "encoder/team.h"
#include "tests/support.h"

static void parts_cover_the_rows_in_whole_blocks(void **state) {
    (void)state;
    assert_int_equal(team_parts(0), 0);
    for (int64_t rows = 1; rows < 5000; rows += 1 + rows / 50) {
        const int parts = team_parts(rows);
        assert_true(parts >= 1 && parts <= TEAM_PARTS);
        assert_int_equal(team_first(rows, 0), 0);
        assert_int_equal(team_first(rows, parts), rows);
        for (int p = 0; p < parts; p++) {
            assert_int_equal(team_first(rows, p) % TEAM_BLOCK, 0);
            assert_true(team_first(rows, p) < team_first(rows, p + 1));
        }
    }
}

static void sums_of_parts_add_up(void **state) {
    (void)state;
    enum { ROWS = 1000, WIDTH = 5 };
    struct team team = {.threads = 2};
    float total[3] = {1, 1, 1};
    team_reserve(&team, 2, 3);
    team_reserve(&team, WIDTH, 1); /* the larger of both stays */
    assert_false(team.failed);
    assert_true(team.sums_each >= WIDTH && team.room_each >= 3);
#pragma omp parallel for num_threads(team.threads)
    for (int part = 0; part < team_parts(ROWS); part++) {
        float *sums = team_sums(&team, part, WIDTH);
        for (int64_t n = team_first(ROWS, part); n < team_first(ROWS, part + 1); n++)
            for (int c = 0; c < WIDTH; c++)
                sums[c] += (float)c;
    }
    team_add(&team, ROWS, 2, total, 3);
    for (int c = 0; c < 3; c++)
        assert_true(total[c] == 1 + ROWS * (float)(c + 2));
    team_close(&team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cover_the_rows_in_whole_blocks),
        cmocka_unit_test(sums_of_parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
