import type { RuleMode, Severity } from '@wardline/contract'

interface RulesTable {
  id: string
  title: string
  severity: Severity
  mode: RuleMode
  version: number
  text: string
  format: 'yaml' | 'json'
  /** File name in WARDLINE_RULES_DIR; null = stored by the API. */
  file: string | null
  /** JSON list of the responses' actions, so that listing rules does not compile them. */
  responses: string
  /** JSON list of its tags. */
  tags: string
  /** The document as JSON, without tests: what runs. null = stored by an older version, until a process has compiled it. */
  document: string | null
  /** Units of work that an event costs at worst; null = stored by an older version, until a process has compiled it. */
  cost: number | null
  /** How often a list that it uses was changed: it is compiled again. */
  list_changes: number
  created_at: number
  changed_at: number
  /** Key of the last change; null = read from a file. */
  changed_by: string | null
}

/** A list that rules name by the modifier expand. */
interface RuleListsTable {
  name: string
  description: string
  /** JSON list of texts, in the order in which they were added. */
  entries: string
  /** Number of entries. */
  count: number
  version: number
  created_at: number
  changed_at: number
  /** Key of the last change. */
  changed_by: string | null
}

/** All versions of a rule's text, kept after deletion because firings refer to versions. */
interface RuleVersionsTable {
  rule_id: string
  version: number
  text: string
  format: 'yaml' | 'json'
  created_at: number
  created_by: string | null
}

/** A rule fires at most once per event, so rule and seq identify a firing. */
interface RuleFiringsTable {
  rule_id: string
  /** Seq of the event that completed the firing. */
  seq: number
  version: number
  mode: RuleMode
  /** JSON list of the group-by values. */
  group_key: string
  instance_id: string | null
  /** Whether the service itself reported the event. */
  by_service: 0 | 1
  event_id: string
  /** Effective time of the event. */
  fired_at: number
  count: number
  /** JSON list of `[seq, id]`. */
  events: string
  /** Id of the rule_matched event. */
  matched_id: string
  created_at: number
}

interface RuleHoursTable {
  rule_id: string
  /** First millisecond of the hour. */
  hour: number
  count: number
  /** Firings over an instance's budget, which are only counted. */
  suppressed: number
}

/** Response to a firing, written together with it. Executed at once, or by the next holder of the lease. */
interface RuleResponsesTable {
  rule_id: string
  seq: number
  /** Place in the list of responses. */
  position: number
  action: 'alert' | 'suspend' | 'suspend_tag' | 'call'
  /** Channel, instance, tag or enforcement point; null = all channels. */
  target: string | null
  duration_ms: number | null
  state: 'pending' | 'done' | 'skipped' | 'refused' | 'failed'
  detail: string | null
  created_at: number
}

/** Used only by processes of earlier versions: `suspensions.ends_at` now has the end of a temporary suspension. */
interface RuleSuspensionsTable {
  instance_id: string
  version: number
  rule_id: string
  seq: number
  ends_at: number
  ended_at: number | null
}

/** Values seen per group, for new_value. The row with the value '' has the time since which the group is known. */
interface RuleValuesTable {
  rule_id: string
  /** Digest of detection and correlation, because values seen by another detection do not count. */
  basis: string
  /** Text of the group and the value, or their digest if it is long. */
  group_key: string
  value: string
  seen_at: number
  /** Seq of the last event for which the value was new; 0 = never. */
  new_seq: number
  /** Instance that showed the value, '' = none, '*' = several; null = a row of a group, or of an older version. */
  reporter: string | null
}

/** First position in the log that a rule may see, also when its state is rebuilt. */
interface RuleStartsTable {
  rule_id: string
  basis: string
  /** The rule sees events after this seq. */
  after_seq: number
  /** Mode in which it runs; null = stored by an older version. */
  mode: RuleMode | null
  /** It has that mode since the event after this seq; 0 = stored by an older version. */
  mode_after: number
}

/** One row with the lease of the process that runs the rules, and its position in the log. */
interface RuleRunnerTable {
  id: 1
  /** Incremented by each takeover, so that writes of an earlier holder fail. */
  epoch: number
  holder: string | null
  leased_until: number
  /** All events up to this seq were evaluated. */
  seq: number
}

export interface RuleTables {
  rules: RulesTable
  rule_lists: RuleListsTable
  rule_versions: RuleVersionsTable
  rule_firings: RuleFiringsTable
  rule_hours: RuleHoursTable
  rule_responses: RuleResponsesTable
  rule_suspensions: RuleSuspensionsTable
  rule_values: RuleValuesTable
  rule_starts: RuleStartsTable
  rule_runner: RuleRunnerTable
}
