/** Every process queries recent kills and resumes each second, in a table of up to a million instances. */
export const controlChanges = (): string[] => [
  `create index instances_by_control_change on instances (control_changed_at) where control_changed_at is not null`,
]
