"""Faults of Discord and of the way to it, each as a test that needs its fault; all paths are below `tests/`.

F2, out of order

    answered in the order of the platform
        discord/test_limits_and_outages.py
            test_what_is_told_in_another_order_than_it_was_said_is_answered_as_it_was_said
        dispatch/test_intake.py
            test_questions_of_a_thread_are_answered_in_the_order_of_the_platform
    an edit or a deletion is told before its message
        discord/test_out_of_order.py
            test_an_edit_that_is_told_before_its_message_wins
            test_a_deletion_that_is_told_before_its_message_wins
    a deleted question takes its placeholder along, an edit triggers no second answer
        discord/test_delivery_in_trouble.py
            test_an_edited_question_is_not_answered_again_and_a_deleted_one_takes_its_placeholder_along

F3, 429

    0.2 s, for a route or for all, as HTML
        discord/test_delivery_in_trouble.py
            test_a_request_that_fails_or_whose_reply_is_lost_leaves_one_answer
    5 s: kept, and the edits meanwhile are one
        discord/test_limits_and_outages.py
            test_a_limit_of_five_seconds_is_kept_and_the_edits_meanwhile_become_one
    an hour, for a route, for all, a ban
        discord/test_places_that_go.py
            test_a_limit_of_an_hour_is_kept_and_the_next_process_delivers
            test_while_all_requests_are_refused_for_an_hour_none_is_sent
            test_after_such_a_pause_the_answer_comes
    no time is told
        discord/test_limits_and_outages.py
            test_a_refusal_that_names_no_time_is_tried_again
    over 60 s: the edits stop, the final text comes
        dispatch/test_delivery.py
            test_a_long_wait_ends_the_edits_in_between_but_not_the_last
    none of our own making
        discord/test_buckets.py
            test_a_crowd_after_the_start_is_answered_without_a_refusal
        chaos/test_on_discord.py
            test_five_hundred_at_once_are_all_taken_and_all_get_their_ending

F4, trouble on the way

    500, 503, a call that is applied and whose reply is lost
        discord/test_delivery_in_trouble.py
            test_a_request_that_fails_or_whose_reply_is_lost_leaves_one_answer
    502
        discord/test_limits_and_outages.py
            test_a_refusal_that_names_no_time_is_tried_again
    the connection is refused, or the certificate is none
        discord/test_limits_and_outages.py
            test_while_discord_cannot_be_reached_the_answer_waits
        bot/test_certificates.py
            test_of_discord_while_it_runs
    no reply in time
        discord/test_limits_and_outages.py
            test_a_request_that_is_not_answered_in_time_is_not_made_twice
    down while answers are made
        chaos/test_neighbours.py
            test_slack_is_answered_while_discord_is_down_in_the_middle_of_answers

F5, refused for good

    401: it ends, with an exit code, after at most three requests
        acceptance/test_on_discord.py
            test_a_wrong_token_is_one_line_and_an_exit_code
        discord/test_delivery_in_trouble.py
            test_when_the_token_is_taken_away_it_ends_and_asks_no_more
    403, 404
        discord/test_delivery_in_trouble.py
            test_where_there_is_no_place_any_more_the_job_ends_and_others_go_on
    the thread is deleted, archived, locked, the bot is shut out or kicked
        discord/test_delivery_in_trouble.py
            test_an_archived_thread_is_woken_for_the_answer_and_a_locked_one_is_not
        discord/test_places_that_go.py
            test_where_its_place_goes_the_job_ends_once_and_nothing_more_is_asked_of_discord
        discord/test_out_of_order.py
            test_questions_that_wait_where_all_is_gone_end_at_once
"""
