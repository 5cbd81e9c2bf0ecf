import { integer, setting } from './values.ts'

/** Limits of stored data other than the age of events, and the deadlines of containment. */
export const limitSettings = {
  maxInstances: setting({
    env: 'WARDLINE_MAX_INSTANCES',
    unset: '100000',
    meaning:
      'Maximum number of instances; a heartbeat of a further one is refused with 403. For the limit of each key of scope agent, see `max_instances` of POST /api/keys',
    parse: integer(1, 1_000_000),
  }),
  forgetInstancesDays: setting({
    env: 'WARDLINE_FORGET_INSTANCES_DAYS',
    unset: '30',
    meaning:
      'Days after which an instance that sent only one heartbeat is deleted; one that was ever suspended is kept',
    parse: integer(1, 3650),
  }),
  maxDbMb: setting({
    env: 'WARDLINE_MAX_DB_MB',
    unset: undefined,
    meaning:
      'Maximum size of the data in the database, in MiB; beyond it the oldest events are removed, info first and breaches last. Half of the limit is reserved for critical events and breaches. Default: no limit',
    // With a smaller limit, the data other than events could exceed it and cause all events to be removed.
    parse: integer(100, 100_000_000),
  }),
  suspensionSilenceSeconds: setting({
    env: 'WARDLINE_SUSPENSION_SILENCE_SECONDS',
    unset: '30',
    meaning: 'Seconds without an event after the acknowledgement of a suspension after which it counts as proven',
    parse: integer(1, 3600),
  }),
  suspensionAckSeconds: setting({
    env: 'WARDLINE_SUSPENSION_ACK_SECONDS',
    unset: '35',
    meaning:
      'Seconds after which a suspension without an acknowledgement is reported as `kill_unconfirmed`; agents without a control stream poll every 30 seconds',
    parse: integer(1, 3600),
  }),
}
