import type { Deps } from './deps.ts'
import type { Dispatcher } from './features/alerts/dispatcher.ts'
import { ChannelDirectory } from './features/alerts/open-directory.ts'
import { createDispatcher } from './features/alerts/open-dispatcher.ts'
import { createOutbox, type Outbox } from './features/alerts/outbox.ts'
import { createDetection, type Detection } from './features/detection/detection.ts'
import { createScout, type Scout } from './features/detection/scout.ts'
import { createIngest, type Ingest } from './features/events/ingest.ts'
import { createDecoyChecks, type DecoyChecks } from './features/honeypots/check.ts'
import { createHeartbeats, type Heartbeats } from './features/instances/instances.ts'
import { Keyring } from './features/keys/keyring.ts'
import { ControlRelay } from './features/kill-switch/control-relay.ts'
import { ControlStates } from './features/kill-switch/control-states.ts'
import { ControlStream } from './features/kill-switch/control-stream.ts'
import { EventStream } from './features/stream/stream.ts'

/** The parts of features that keep something in memory: queues, caches, open streams. */
export interface Services {
  ingest: Ingest
  detection: Detection
  scout: Scout
  decoyChecks: DecoyChecks
  heartbeats: Heartbeats
  keyring: Keyring
  controlStates: ControlStates
  controlStream: ControlStream
  controlRelay: ControlRelay
  eventStream: EventStream
  channelDirectory: ChannelDirectory
  outbox: Outbox
  dispatcher: Dispatcher
}

export async function openServices(deps: Deps): Promise<Services> {
  const channelDirectory = new ChannelDirectory(deps)
  const outbox = createOutbox(deps, channelDirectory)
  const dispatcher = createDispatcher(deps, channelDirectory, outbox)
  const ingest = createIngest(deps, outbox)
  const services = {
    ingest,
    detection: createDetection(deps, ingest),
    scout: createScout(deps, ingest, outbox),
    decoyChecks: createDecoyChecks(deps, ingest),
    heartbeats: createHeartbeats(deps),
    keyring: new Keyring(deps),
    controlStates: new ControlStates(deps),
    controlStream: new ControlStream(deps),
    controlRelay: new ControlRelay(deps),
    eventStream: new EventStream(deps),
    channelDirectory,
    outbox,
    dispatcher,
  }
  await Promise.all([
    services.keyring.refresh(),
    services.decoyChecks.refresh(),
    services.eventStream.open(),
    services.channelDirectory.open(),
    services.dispatcher.open(),
  ])
  return services
}
