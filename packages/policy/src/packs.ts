/**
 * Labels of tools that are used most. A line: the tool, its labels, its destinations, and in `argument=labels` those that
 * hold only when the argument is present.
 */
const texts: Readonly<Record<string, string>> = {
  // Claude Code, Codex, OpenCode.
  coding: `
    Read untrusted,private
    Grep untrusted,private
    Glob -
    LS -
    Write changes file_path
    Edit changes file_path
    MultiEdit changes file_path
    NotebookEdit changes notebook_path
    Bash untrusted,sends,changes,irreversible command
    shell untrusted,sends,changes,irreversible command
    exec_command untrusted,sends,changes,irreversible cmd
    apply_patch changes -
    WebFetch untrusted,sends,fetches url
    WebSearch untrusted,sends query
    web_search untrusted,sends query
    Task -
    TodoWrite -
    ExitPlanMode -`,
  // Mail, calendar, contacts and files of a person.
  office: `
    send_email sends,changes,irreversible recipients,to,cc,bcc
    reply_to_email sends,changes,irreversible email_id
    forward_email sends,changes,irreversible recipients,to
    delete_email changes,irreversible email_id
    get_unread_emails untrusted,private
    get_received_emails untrusted,private
    get_sent_emails private
    get_draft_emails private
    search_emails untrusted,private
    read_email untrusted,private
    search_contacts private,directory
    search_contacts_by_name private,directory
    search_contacts_by_email private,directory
    get_current_day -
    search_calendar_events untrusted,private
    get_day_calendar_events untrusted,private
    list_events untrusted,private
    create_calendar_event changes participants,title participants=sends
    create_event changes attendees,summary attendees=sends
    cancel_calendar_event sends,changes,irreversible event_id
    delete_event sends,changes,irreversible eventId
    reschedule_calendar_event changes event_id
    add_calendar_event_participants sends,changes participants
    list_files untrusted,private
    search_files untrusted,private
    search_files_by_filename untrusted,private
    get_file_by_id untrusted,private
    create_file changes filename
    append_to_file changes file_id
    delete_file changes,irreversible file_id
    share_file sends,changes email`,
  // Booking of travel.
  travel: `
    get_user_information private,directory
    get_rating_reviews_for_hotels untrusted
    get_rating_reviews_for_restaurants untrusted
    get_rating_reviews_for_car_rental untrusted
    get_all_hotels_in_city -
    get_hotels_prices -
    get_hotels_address -
    get_all_restaurants_in_city -
    get_cuisine_type_for_restaurants -
    get_restaurants_address -
    get_dietary_restrictions_for_all_restaurants -
    get_contact_information_for_restaurants -
    get_price_for_restaurants -
    check_restaurant_opening_hours -
    get_all_car_rental_companies_in_city -
    get_car_types_available -
    get_car_fuel_options -
    get_car_rental_address -
    get_car_price_per_day -
    get_flight_information -
    reserve_hotel sends,changes,irreversible hotel
    reserve_restaurant sends,changes,irreversible restaurant
    reserve_car_rental sends,changes,irreversible company`,
  // Customer service of shops and airlines.
  service: `
    calculate -
    transfer_to_human_agents -
    find_user_id_by_name_zip private,directory
    find_user_id_by_email private,directory
    get_user_details private,directory
    get_order_details private,directory
    get_reservation_details private,directory
    get_product_details -
    get_item_details -
    list_all_product_types -
    list_all_airports -
    search_direct_flight -
    search_onestop_flight -
    get_flight_status -
    cancel_pending_order changes,irreversible order_id
    modify_pending_order_address changes,irreversible order_id,address1
    modify_pending_order_items changes,irreversible order_id,payment_method_id
    modify_pending_order_payment changes,irreversible order_id,payment_method_id
    modify_user_address changes,irreversible user_id,address1
    return_delivered_order_items changes,irreversible order_id,payment_method_id
    exchange_delivered_order_items changes,irreversible order_id,payment_method_id
    book_reservation changes,irreversible user_id,origin,destination,payment_methods
    cancel_reservation changes,irreversible reservation_id
    send_certificate changes,irreversible user_id
    update_reservation_baggages changes reservation_id,payment_id
    update_reservation_flights changes,irreversible reservation_id,payment_id
    update_reservation_passengers changes reservation_id`,
  // The reference servers of the Model Context Protocol: filesystem, fetch, memory, git.
  mcp: `
    read_file untrusted,private
    read_text_file untrusted,private
    read_media_file untrusted,private
    read_multiple_files untrusted,private
    list_directory -
    list_directory_with_sizes -
    directory_tree -
    get_file_info -
    list_allowed_directories -
    write_file changes,irreversible path
    edit_file changes path
    move_file changes,irreversible source,destination
    create_directory changes path
    fetch untrusted,sends,fetches url
    create_entities changes -
    delete_entities changes,irreversible entityNames
    read_graph untrusted,private
    search_nodes untrusted,private
    open_nodes untrusted,private
    git_status -
    git_diff untrusted
    git_log untrusted
    git_show untrusted
    git_add changes -
    git_commit changes -
    git_reset changes,irreversible -
    git_checkout changes branch_name`,
  // The GitHub server.
  github: `
    get_file_contents untrusted,private
    search_code untrusted,private
    search_issues untrusted
    search_repositories untrusted
    list_issues untrusted
    list_pull_requests untrusted
    list_commits untrusted
    get_issue untrusted
    issue_read untrusted
    pull_request_read untrusted
    get_me private,directory
    create_issue sends,changes owner,repo
    issue_write sends,changes owner,repo
    add_issue_comment sends,changes owner,repo
    create_pull_request sends,changes owner,repo
    create_or_update_file sends,changes owner,repo,branch
    push_files sends,changes owner,repo,branch
    create_branch changes owner,repo
    create_repository sends,changes name
    fork_repository sends,changes owner,repo
    merge_pull_request changes,irreversible owner,repo,pullNumber
    delete_file changes,irreversible owner,repo,path`,
  // The Slack server.
  slack: `
    slack_list_channels directory,inside
    slack_get_users private,directory,inside
    slack_get_user_profile untrusted,private
    slack_get_channel_history untrusted,private
    slack_get_thread_replies untrusted,private
    slack_post_message sends,changes,irreversible,inside channel_id
    slack_reply_to_thread sends,changes,irreversible,inside channel_id
    slack_add_reaction changes,inside channel_id`,
}

const listOf = (text: string | undefined): string[] => (text === undefined || text === '-' ? [] : text.split(','))

const packOf = (text: string) =>
  Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => {
        const [tool, is, ...rest] = line.trim().split(' ')
        const when = rest.filter((part) => part.includes('=')).map((part) => part.split('=') as [string, string])
        const destination = listOf(rest.find((part) => !part.includes('=')))
        const conditional = Object.fromEntries(when.map(([name, labels]) => [name, listOf(labels)]))
        return [tool!, { is: listOf(is), destination, ...(when.length > 0 ? { when: conditional } : {}) }]
      }),
  )

/** Labels of tools by the name of their pack, in the form in which a policy writes them. */
export const packs: Readonly<Record<string, Readonly<Record<string, unknown>>>> = Object.fromEntries(
  Object.entries(texts).map(([name, text]) => [name, packOf(text)]),
)
