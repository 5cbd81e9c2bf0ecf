/** Used only by processes of the previous version that may still run. A later version will drop it. */
interface MetricBaselinesTable {
  instance_id: string
  metric: string
  samples: number
  mean: number
  /** Sum of squared differences from the mean (Welford). */
  m2: number
}

/** Usual values of a metric of an instance. */
interface BaselinesTable {
  instance_id: string
  metric: string
  /** Incremented by every change, so that concurrent updates of a baseline by two processes conflict. */
  version: number
  /** See baseline-state.ts; at most 1 KiB, empty after a reset. */
  state: string
  updated_at: number
  /** Time at which an open episode ends unless the instance reports again; null without an episode. */
  silent_at: number | null
}

interface BaselineEpisodesTable {
  id: string
  instance_id: string
  metric: string
  severity: 'warning' | 'critical'
  basis: 'own' | 'type' | 'tag' | 'fleet' | 'none'
  peak: number
  begun_at: number
  ended_at: number | null
  /** How the episode ended; null while open. A level that rose without an episode is one that ended at once. */
  outcome: 'over' | 'accepted' | 'reset' | 'silent' | 'level' | null
}

/** Usual gaps between an instance's reports while it sends heartbeats. */
interface ReportHabitsTable {
  instance_id: string
  /** Time up to which the counts were evaluated. Also makes concurrent evaluations by two processes conflict. */
  judged_until: number
  /** See report-habit.ts. */
  state: string
  /** Time at which the instance was reported as blind; null while it sends reports. */
  blind_at: number | null
  /** Time at which an alert named the instance instead of only counting it; null while it sends reports. */
  blind_named_at: number | null
}

export interface DetectionTables {
  metric_baselines: MetricBaselinesTable
  baselines: BaselinesTable
  baseline_episodes: BaselineEpisodesTable
  report_habits: ReportHabitsTable
}
