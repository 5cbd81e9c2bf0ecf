import { integer, setting, someOf } from './values.ts'

export const autoSuspensionSettings = {
  autoSuspend: setting({
    env: 'WARDLINE_AUTO_SUSPEND',
    unset: undefined,
    meaning:
      'What suspends an agent automatically, separated by commas: `decoy` = it touches a decoy; `breach` = its own key reports an event of severity breach for it. Default: nothing',
    parse: someOf(['decoy', 'breach']),
  }),
  autoSuspendPerMinute: setting({
    env: 'WARDLINE_AUTO_SUSPEND_PER_MINUTE',
    unset: '5',
    meaning:
      'Maximum automatic suspensions a minute, of all processes; one more engages the brake, which an operator has to release',
    parse: integer(1, 10_000),
  }),
  autoSuspendFleetPercent: setting({
    env: 'WARDLINE_AUTO_SUSPEND_FLEET_PERCENT',
    unset: '10',
    meaning:
      'Maximum share of the fleet, in percent, that is suspended automatically at a time, or WARDLINE_AUTO_SUSPEND_FLEET_MIN agents if those are more; one more engages the brake. The fleet is all instances that sent a heartbeat within 24 hours',
    parse: integer(1, 100),
  }),
  autoSuspendFleetMin: setting({
    env: 'WARDLINE_AUTO_SUSPEND_FLEET_MIN',
    unset: '5',
    meaning:
      'Agents that may be suspended automatically at a time in any fleet, however small: a tenth of ten agents would let the second attacker go on',
    parse: integer(1, 10_000),
  }),
}
