/** Of the version before, whose processes may still run beside this one; a later version drops it. */
interface MetricBaselinesTable {
  instance_id: string
  metric: string
  samples: number
  mean: number
  /** Sum of squared differences from the mean (Welford). */
  m2: number
}

/** What is usual for a metric of an instance. */
interface BaselinesTable {
  instance_id: string
  metric: string
  /** Grows by one with every change: two processes that judge the same baseline notice each other. */
  version: number
  /** See baseline-state.ts; at most 1 KiB, empty after a reset. */
  state: string
  updated_at: number
  /** When an open episode ends unless the instance reports again; null without one. */
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
  /** How it ended; null while it is open. A level that rose without an episode is one that ended when it began. */
  outcome: 'over' | 'accepted' | 'reset' | 'silent' | 'level' | null
}

/** How long an instance usually reports nothing while it sends heartbeats. */
interface ReportHabitsTable {
  instance_id: string
  /** Up to where its counts were looked at: two processes that judge the same instance notice each other. */
  judged_until: number
  /** See report-habit.ts. */
  state: string
  /** When it was reported as blind; null while it reports. */
  blind_at: number | null
  /** When that named it, instead of only counting it; null while it reports. */
  blind_named_at: number | null
}

export interface DetectionTables {
  metric_baselines: MetricBaselinesTable
  baselines: BaselinesTable
  baseline_episodes: BaselineEpisodesTable
  report_habits: ReportHabitsTable
}
