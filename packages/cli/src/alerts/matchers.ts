import { type AlertMatch, type Severity, severities } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { repeated } from '../service/options.ts'

export interface MatcherOptions {
  severity?: Severity[]
  type?: string[]
  instance?: string[]
}

export function matchOf({ severity, type, instance }: MatcherOptions): AlertMatch {
  return {
    ...(severity === undefined ? {} : { severities: severity }),
    ...(type === undefined ? {} : { types: type }),
    ...(instance === undefined ? {} : { instances: instance }),
  }
}

/** What a rule is about, on one line; text of a server has to be made plain by the caller. */
export function matchText({ severities: among, types, instances }: AlertMatch): string {
  const parts = [
    ...(among ? [`severity ${among.join(', ')}`] : []),
    ...(types ? [`type ${types.join(', ')}`] : []),
    ...(instances ? [`instance ${instances.join(', ')}`] : []),
  ]
  return parts.length === 0 ? 'every alert' : parts.join('; ')
}

/** Adds the options that say which alerts a rule is about. */
export function withMatchers(command: Command): Command {
  return command
    .addOption(new Option('--severity <severity...>', 'severity, one or more').choices(severities))
    .option('--type <type>', 'event type, or a prefix ending in *; repeatable', repeated)
    .option('--instance <id>', 'instance id, or a prefix ending in *; repeatable', repeated)
}
