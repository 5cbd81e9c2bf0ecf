interface MetricBaselinesTable {
  instance_id: string
  metric: string
  samples: number
  mean: number
  /** Sum of squared differences from the mean (Welford). */
  m2: number
}

export interface DetectionTables {
  metric_baselines: MetricBaselinesTable
}
