import { expect, test } from 'vitest'
import { callFields } from './tool-fields.ts'

// Names as the sources of coding agents, frameworks and MCP servers have them in November 2026.
const names: Record<string, Record<string, string>> = {
  'Claude Code': {
    read: 'Glob Grep LSP Read BashOutput ListMcpResourcesTool ReadMcpResourceTool NotebookRead',
    write: 'Edit Write MultiEdit NotebookEdit CronCreate',
    execute: 'Bash PowerShell',
    request: 'WebFetch WebSearch',
    send: 'SendMessage Artifact',
    other:
      'Agent AskUserQuestion EnterPlanMode ExitPlanMode Skill TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoWrite ToolSearch KillShell',
  },
  Codex: {
    read: 'view_image list_dir read_file grep_files list_mcp_resources read_mcp_resource',
    write: 'apply_patch',
    execute: 'shell local_shell exec_command write_stdin js_repl',
    request: 'web_search',
    other: 'update_plan spawn_agent send_input request_user_input',
  },
  Cursor: {
    read: 'codebase_search grep_search file_search glob_file_search list_dir read_file fetch_rules',
    write: 'edit_file search_replace delete_file reapply edit_notebook',
    execute: 'run_terminal_cmd',
    request: 'web_search',
    other: 'todo_write',
  },
  'Gemini CLI': {
    read: 'glob grep_search list_directory read_file read_many_files get_internal_docs search_file_content',
    write: 'write_file replace save_memory',
    execute: 'run_shell_command',
    request: 'google_web_search web_fetch mcp_fetch_fetch',
    other: 'write_todos ask_user activate_skill enter_plan_mode exit_plan_mode update_topic complete_task',
  },
  OpenCode: {
    read: 'read glob grep list lsp filesystem_read_text_file',
    write: 'edit write patch multiedit apply_patch',
    execute: 'bash shell execute',
    request: 'webfetch websearch browser',
    send: 'github_issue_write github_add_issue_comment',
    other: 'task todowrite todoread skill question',
  },
  OpenClaw: {
    read: 'read ls memory_search memory_get sessions_list sessions_history session_status',
    write: 'write edit apply_patch',
    execute: 'exec code_mode_exec code_execution terminal',
    request: 'web_fetch web_search browser',
  },
  Copilot: {
    read: 'semantic_search file_search grep_search read_file view_image list_dir get_errors get_changed_files read_project_structure search_workspace_symbols get_terminal_output read_notebook_cell_output copilot_searchCodebase copilot_findFiles copilot_readFile github-mcp-server-get_file_contents view',
    write:
      'insert_edit_into_file create_file replace_string_in_file multi_replace_string_in_file edit_notebook_file create_directory copilot_createFile copilot_replaceString copilot_insertEdit install_extension edit create',
    execute: 'run_in_terminal run_notebook_cell create_and_run_task run_task runTests copilot_runVscodeCommand',
    request: 'fetch_webpage copilot_fetchWebPage web_fetch',
    other: 'manage_todo_list runSubagent',
  },
  'Windsurf and Cline': {
    read: 'view_file find_by_name grep_search list_dir codebase_search command_status read_url_content list_files search_files list_code_definition_names',
    write: 'write_to_file replace_file_content replace_in_file create_memory',
    execute: 'run_command execute_command',
    request: 'search_web browser_action web_fetch',
    other: 'new_task ask_followup_question attempt_completion plan_mode_respond',
  },
  'tools of model services and frameworks': {
    read: 'file_search read_file list_directory sql_db_query sql_db_list_tables sql_db_schema',
    write: 'copy_file move_file file_delete',
    execute: 'code_interpreter code_execution bash_code_execution python_repl Python_REPL terminal',
    request:
      'web_search web_search_preview tavily_search duckduckgo_search google_search brave_search url_context web_fetch',
    send: 'requests_post',
    other: 'computer computer_use_preview tool_search image_generation',
  },
  'the reference servers': {
    read: 'read_file read_text_file read_media_file read_multiple_files list_directory list_directory_with_sizes directory_tree search_files get_file_info list_allowed_directories read_graph search_nodes open_nodes git_status git_diff_unstaged git_diff_staged git_diff git_log git_show git_branch',
    write:
      'write_file edit_file create_directory move_file create_entities create_relations add_observations delete_entities git_commit git_add git_reset git_create_branch git_checkout',
    request: 'fetch',
    other: 'sequentialthinking',
  },
  GitHub: {
    read: 'actions_get actions_list get_commit get_file_contents get_me issue_read pull_request_read projects_list search_code list_commits get_job_logs get_secret_scanning_alert list_pull_requests get_label',
    write:
      'create_branch create_or_update_file create_repository delete_file fork_repository merge_pull_request star_repository label_write projects_write update_pull_request_title mark_all_notifications_read add_issue_reaction assign_copilot_to_issue dismiss_notification',
    execute: 'actions_run_trigger',
    send: 'create_issue issue_write add_issue_comment create_gist update_gist create_pull_request create_pull_request_review pull_request_review_write discussion_comment_write push_files add_reply_to_pull_request_comment submit_pending_pull_request_review update_issue_body sub_issue_write',
  },
  GitLab: {
    read: 'get_file_contents list_merge_requests get_merge_request_diffs search_repositories whoami get_project validate_ci_lint health_check',
    write:
      'create_branch create_or_update_file create_repository merge_merge_request approve_merge_request create_issue_link delete_label create_tag',
    execute: 'retry_pipeline',
    request: 'download_attachment',
    send: 'create_issue create_note create_merge_request create_merge_request_thread create_merge_request_note push_files upload_markdown publish_draft_note',
  },
  Slack: {
    read: 'slack_list_channels slack_get_channel_history slack_get_thread_replies slack_get_users channels_list conversations_history conversations_replies conversations_search_messages users_search slack_search_public slack_read_channel',
    write: 'slack_add_reaction reactions_add usergroups_update conversations_mark',
    send: 'slack_post_message slack_reply_to_thread conversations_add_message slack_send_message',
  },
  Notion: {
    read: 'notion-search notion-fetch notion-get-users API-post-search API-post-database-query API-retrieve-a-page API-get-block-children API-get-self API-query-data-source',
    write:
      'notion-create-pages notion-update-page notion-move-pages API-post-page API-patch-page API-patch-block-children API-delete-a-block',
    send: 'notion-create-comment API-create-a-comment',
  },
  'Linear and Jira': {
    read: 'list_issues get_issue list_comments linear_search_issues jira_search jira_get_issue jira_get_transitions confluence_get_page searchJiraIssuesUsingJql getConfluencePage',
    write:
      'create_document jira_transition_issue jira_delete_issue jira_create_issue_link confluence_update_page createConfluencePage jira_add_worklog',
    request: 'jira_download_attachments',
    send: 'create_issue save_issue create_comment linear_add_comment jira_create_issue jira_batch_create_issues jira_add_comment addCommentToJiraIssue createJiraIssue reply_to_comment upload_attachment',
  },
  'Google Workspace': {
    read: 'search_gmail_messages get_gmail_message_content list_calendars get_events search_drive_files get_drive_file_content list_drive_items get_doc_content',
    write: 'draft_gmail_message create_event modify_event delete_event create_drive_file create_doc',
    send: 'send_gmail_message share_drive_file',
  },
  'Microsoft 365': {
    read: 'list-mail-messages get-mail-message list-calendar-events get-drive-item list-folder-files list-chat-messages find-meeting-times search-query get-sharepoint-site',
    write:
      'create-draft-email create-reply-draft create-calendar-event delete-mail-message move-mail-message create-onedrive-folder update-excel-range add-group-member create-todo-task',
    send: 'send-mail forward-mail-message reply-mail-message reply-to-chat-message send-chat-message send-draft-message share-drive-item create-drive-item-share-link upload-file-content',
  },
  browsers: {
    read: 'browser_find browser_cookie_get browser_localstorage_list get_network_request list_pages take_screenshot',
    write: 'browser_cookie_set browser_cookie_delete browser_pdf_save',
    execute: 'browser_evaluate browser_run_code browser_run_code_unsafe evaluate_script puppeteer_evaluate',
    request:
      'browser_navigate browser_click browser_type browser_fill_form browser_select_option browser_snapshot browser_take_screenshot browser_tabs browser_press_key navigate_page new_page click fill fill_form puppeteer_navigate puppeteer_click puppeteer_select',
    send: 'browser_file_upload upload_file',
  },
  databases: {
    read: 'query mysql_query pg_query execute_sql list_schemas list_objects get_object_details explain_query find aggregate count collection-schema db-stats list-collections hget hgetall smembers scan_keys search_redis_documents json_get get',
    write:
      'insert-many update-many delete-many drop-collection create-index rename-collection hset lpush zadd expire delete set json_set apply_migration',
    send: 'publish',
  },
  clouds: {
    read: 'pods_list pods_get pods_log resources_get configuration_view helm_list list_workspaces get_plan_details whoami azmcp_keyvault_secret_get azmcp_deploy_app_logs_get azmcp_storage_account_list d1_databases_list workers_get_worker_code zones_list search_cloudflare_documentation list_projects get_logs get_deployment_build_logs search_docs find_organizations search_events get_issue_details analyze_issue_with_seer list_customers container_file_read',
    write:
      'pods_delete resources_create_or_update resources_scale helm_install create_workspace delete_workspace_safely create_run apply_yaml create_resource delete_resource d1_database_create container_file_write deploy_edge_function merge_branch pause_project restore_project deploy_to_vercel create_project create_dsn cancel_subscription create_customer azmcp_keyvault_secret_create',
    execute: 'pods_exec pods_run container_exec run_checkov',
    request: 'scrape_url_elements web_fetch_vercel_url',
    send: 'create_refund azmcp_communication_email_send azmcp_eventgrid_events_publish',
  },
}

test.each(Object.entries(names))('the tools of %s have their actions', (_, actions) => {
  const meant = Object.entries(actions).flatMap(([action, list]) => list.split(' ').map((name) => ({ name, action })))
  const misread = meant.filter(({ name, action }) => callFields(name, undefined).action !== action)
  expect(misread.map((tool) => ({ ...tool, is: callFields(tool.name, undefined).action }))).toEqual([])
})

test.each<[string, object, string]>([
  ['str_replace_based_edit_tool', { command: 'view', path: '/app/.env' }, 'read'],
  ['str_replace_based_edit_tool', { command: 'str_replace', path: '/app/a.ts' }, 'write'],
  ['memory', { command: 'delete', path: '/memories/a' }, 'write'],
  ['manage_k8s_resource', { operation: 'read', kind: 'Pod' }, 'read'],
  ['usergroups_me', { action: 'list' }, 'read'],
  ['storage', { command: 'storage_account_list' }, 'read'],
  ['Bash', { command: 'ls' }, 'execute'],
  ['shell', { command: 'delete' }, 'execute'],
  ['mysql_query', { sql: 'SELECT 1' }, 'read'],
  ['mysql_query', { sql: 'WITH x AS (DELETE FROM users RETURNING *) SELECT * FROM x' }, 'write'],
  ['execute_sql', { query: 'drop\n table users' }, 'write'],
  ['search', { query: 'how to update my docs' }, 'read'],
  ['call_aws', { cli_command: 'aws s3 ls' }, 'execute'],
])('the arguments of %s %j say what it does', (tool, params, action) => {
  expect(callFields(tool, params).action).toBe(action)
})

test('the name of a method is no command', () => {
  expect(callFields('memory', { command: 'view', path: '/a/b' })).toMatchObject({ command: undefined, paths: ['/a/b'] })
})
