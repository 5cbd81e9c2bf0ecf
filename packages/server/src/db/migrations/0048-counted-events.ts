/** Problems are counted with the index of events. Until now they were counted with each event, so all of them are. */
export const countedEvents = (): string[] => [
  `insert into counters (name, value) select 'counted_seq', value from counters where name = 'event_seq'`,
]
