import type { RuleMode, Severity } from '@wardline/contract'

interface RulesTable {
  id: string
  title: string
  severity: Severity
  mode: RuleMode
  version: number
  text: string
  format: 'yaml' | 'json'
  /** Name of the file of WARDLINE_RULES_DIR that it is read from; null = stored over the interface. */
  file: string | null
  /** Actions of its responses, as a JSON list: a list of rules must not compile them all. */
  responses: string
  created_at: number
  changed_at: number
  /** Key that changed it last; null = read from a file. */
  changed_by: string | null
}

/** Every text that a rule had, also after it was deleted: firings name their version. */
interface RuleVersionsTable {
  rule_id: string
  version: number
  text: string
  format: 'yaml' | 'json'
  created_at: number
  created_by: string | null
}

/** A rule fires at most once for each event, so rule and seq name a firing. */
interface RuleFiringsTable {
  rule_id: string
  /** Of the event that completed it. */
  seq: number
  version: number
  mode: RuleMode
  /** Values of group-by as a JSON list. */
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
  /** The rule_matched event. */
  matched_id: string
  created_at: number
}

interface RuleHoursTable {
  rule_id: string
  /** Its first millisecond. */
  hour: number
  count: number
  /** Firings beyond the budget of an instance, which are counted alone. */
  suppressed: number
}

/** What is to be done about a firing; written with it, worked off at once or by the next holder of the lease. */
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

/** Suspensions that end by themselves, by the control version that suspended. */
interface RuleSuspensionsTable {
  instance_id: string
  version: number
  rule_id: string
  seq: number
  ends_at: number
  ended_at: number | null
}

/** What groups showed before, for new_value. The row with the value '' says since when the group is known. */
interface RuleValuesTable {
  rule_id: string
  /** Digest of detection and correlation: what another detection saw says nothing. */
  basis: string
  group_key: string
  value: string
  seen_at: number
  /** The last event at which the value was new; 0 = it never was. */
  new_seq: number
}

/** From which event on a rule sees the log: a rebuilt state must not look further back. */
interface RuleStartsTable {
  rule_id: string
  basis: string
  /** Events after it. */
  after_seq: number
}

/** One row: who runs the rules, and up to which event. */
interface RuleRunnerTable {
  id: 1
  /** Grows with each takeover: what an earlier holder writes fails. */
  epoch: number
  holder: string | null
  leased_until: number
  /** Every event up to it was taken through the rules. */
  seq: number
}

export interface RuleTables {
  rules: RulesTable
  rule_versions: RuleVersionsTable
  rule_firings: RuleFiringsTable
  rule_hours: RuleHoursTable
  rule_responses: RuleResponsesTable
  rule_suspensions: RuleSuspensionsTable
  rule_values: RuleValuesTable
  rule_starts: RuleStartsTable
  rule_runner: RuleRunnerTable
}
