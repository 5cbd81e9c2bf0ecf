/** Every process looks each second for what was killed or resumed lately, in a table of perhaps a million instances. */
export const controlChanges = (): string[] => [
  `create index instances_by_control_change on instances (control_changed_at) where control_changed_at is not null`,
]
