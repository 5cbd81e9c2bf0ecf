/** Which events the service itself reported; version 11 marks those of before. */
export const serviceEvents = (): string[] => [
  // Without a check, for which the engines would read every row there is.
  'alter table events add column by_service integer not null default 0',
]
