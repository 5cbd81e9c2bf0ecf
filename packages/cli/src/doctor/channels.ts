import type { ChannelView } from '@wardline/contract'
import { Failure } from '../exit.ts'
import type { Service } from '../service/service.ts'
import { type Check, ok, skip, warn } from './check.ts'

const name = 'channels'

const named = (channels: readonly ChannelView[]): string => channels.map((channel) => `"${channel.name}"`).join(', ')

/** Returns the worst status among the channels. */
export function judgeChannels(channels: readonly ChannelView[]): Check {
  const enabled = channels.filter((channel) => channel.enabled)
  if (enabled.length === 0) {
    const detail = channels.length === 0 ? 'No alert channel exists' : 'All channels are disabled'
    return warn(name, `${detail}: alerts are not sent.`, 'Add one (wardline channels add) or enable one, and test it.')
  }
  const failing = enabled.filter(({ state }) => state === 'failing')
  if (failing.length > 0) {
    const errors = failing.map(({ last_error }) => last_error).filter((error) => error !== null)
    return warn(
      name,
      `Alerts do not reach ${named(failing)}${errors.length > 0 ? `: ${errors.join(' ')}` : '.'}`,
      `See its messages (wardline channels log ${failing[0]!.id}), fix the cause, and test the channel.`,
    )
  }
  const given = channels.filter(({ dead }) => dead > 0)
  if (given.length > 0) {
    const count = given.reduce((sum, { dead }) => sum + dead, 0)
    const what = count === 1 ? '1 message was' : `${count} messages were`
    return warn(
      name,
      `${what} not delivered to ${named(given)}.`,
      `Test the channel, then send them again: wardline channels replay ${given[0]!.id}`,
    )
  }
  return ok(name, `Alerts go to ${named(enabled)}.`)
}

/** Checks that alerts reach at least one channel. */
export async function checkChannels({ call, key }: Service): Promise<Check> {
  if (key === undefined) return skip(name, 'The channels cannot be checked without a key.')
  try {
    const { channels } = await call('listChannels', {})
    return judgeChannels(channels)
  } catch (fault) {
    if (fault instanceof Failure) return skip(name, `The channels cannot be checked: ${fault.message}`)
    throw fault
  }
}
