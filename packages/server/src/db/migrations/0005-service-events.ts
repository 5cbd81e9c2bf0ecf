/** Marks events reported by the service itself; migration 11 marks the existing ones. */
export const serviceEvents = (): string[] => [
  // No check constraint, because adding one makes the engines read every row.
  'alter table events add column by_service integer not null default 0',
]
