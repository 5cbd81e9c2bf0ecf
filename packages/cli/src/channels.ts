import { type ChannelChange, type ChannelType, channelTypes } from '@wardline/contract'
import { Argument, type Command, Option } from 'commander'
import { type ChannelOptions, channelFields, withChannelOptions } from './channel-options.ts'
import { readSettings, settingsFor } from './channel-settings.ts'
import { channelTable, channelText } from './channel-text.ts'
import { addChannelTries } from './channel-tries.ts'
import { Failure } from './exit.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'

interface AddOptions extends ServiceFlags, ChannelOptions {
  name: string
  settingsFile?: string
}
type ChangeOptions = ServiceFlags & ChannelOptions & Partial<Pick<AddOptions, 'name' | 'settingsFile'>>

async function list({ json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listChannels', {})
  if (json) return console.log(plainJson(reply, 2))
  if (reply.channels.length === 0) return console.error('There is no channel: alerts reach nobody.')
  console.log(channelTable(reply.channels))
}

async function show(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const channel = await call('getChannel', { params: { id } })
  console.log(json ? plainJson(channel, 2) : channelText(channel))
}

async function add(type: ChannelType, options: AddOptions): Promise<void> {
  const { name, settingsFile, json } = options
  const fields = channelFields(options)
  const { call } = await findService(options)
  const settings = await settingsFor(type, settingsFile)
  const reply = await call('createChannel', { body: { ...fields, type, name, settings } })
  if (json) return console.log(plainJson(reply, 2))
  const id = plainText(reply.id)
  if (reply.secret === undefined) return console.log(`Channel ${id} is added. Try it: wardline channels test ${id}`)
  // The secret alone goes to standard output, so that it can be written to where it belongs.
  console.error(`Channel ${id} is added. Try it: wardline channels test ${id}`)
  console.error('Its signing secret is shown once:')
  console.log(plainText(reply.secret))
}

async function change(id: string, options: ChangeOptions): Promise<void> {
  const { name, settingsFile, json } = options
  const body: ChannelChange = {
    ...channelFields(options),
    ...(name === undefined ? {} : { name }),
    ...(settingsFile === undefined ? {} : { settings: readSettings(settingsFile) }),
  }
  if (Object.keys(body).length === 0) throw new Failure('Say what is to change.', 'usage', 'usage')
  const { call } = await findService(options)
  const reply = await call('changeChannel', { params: { id }, body })
  console.log(json ? plainJson(reply, 2) : `Channel ${plainText(reply.id)} is changed.`)
}

async function remove(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteChannel', { params: { id } })
  console.log(json ? plainJson(reply, 2) : `Channel ${plainText(reply.id)} is deleted, with what waited for it.`)
}

export function addChannels(program: Command): void {
  const channels = program.command('channels').description('where alerts go, and how that fares')
  withService(channels.command('list').description('all channels, never their secrets')).action(list)
  withService(channels.command('show <id>').description('one channel')).action(show)
  const adding = channels
    .command('add')
    .description('add a channel; at a terminal its settings are asked for')
    .addArgument(new Argument('<type>', 'what it leads to').choices(channelTypes))
    .requiredOption('--name <text>', 'what people call it')
    .option('--settings-file <file>', 'JSON file with its settings; - reads standard input (see the guide on alerts)')
  withService(withChannelOptions(adding, false)).action(add)
  const changing = channels
    .command('change <id>')
    .description('change what is named')
    .option('--name <text>', 'what people call it')
    .option('--settings-file <file>', 'JSON file with settings that replace all of it; - reads standard input')
    .addOption(new Option('--enable', 'let it take alerts, from now on').conflicts('disable'))
    .option('--disable', 'let it take none; what waits is dropped')
  withService(withChannelOptions(changing, true)).action(change)
  withService(channels.command('delete <id>').description('remove a channel with what waits for it')).action(remove)
  addChannelTries(channels)
}
