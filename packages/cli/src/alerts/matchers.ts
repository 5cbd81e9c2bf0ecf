import { type AlertMatch, type Severity, severities } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { repeated } from '../service/options.ts'

export interface MatcherOptions {
  severity?: Severity[]
  type?: string[]
  instance?: string[]
}

export const matchOf = ({ severity, type, instance }: MatcherOptions): AlertMatch => ({
  severities: severity,
  types: type,
  instances: instance,
})

/** Formats the matchers of a rule on one line. The caller must sanitize the text. */
export function matchText({ severities: among, types, instances }: AlertMatch): string {
  const parts = [
    ...(among ? [`severity ${among.join(', ')}`] : []),
    ...(types ? [`type ${types.join(', ')}`] : []),
    ...(instances ? [`instance ${instances.join(', ')}`] : []),
  ]
  return parts.length === 0 ? 'every alert' : parts.join('; ')
}

/** Adds the options that select alerts. */
export function withMatchers(command: Command): Command {
  return command
    .addOption(new Option('--severity <severity...>', 'severity, one or more').choices(severities))
    .option('--type <type>', 'event type, or a prefix ending in *; repeatable', repeated)
    .option('--instance <id>', 'instance id, or a prefix ending in *; repeatable', repeated)
}
