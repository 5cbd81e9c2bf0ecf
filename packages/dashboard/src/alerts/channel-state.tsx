import type { Channel } from '../service/alerts.ts'
import { stateOfChannel } from './alert-texts.ts'

const marks: Record<ReturnType<typeof stateOfChannel>, { shape: string; look: string }> = {
  works: { shape: '●', look: 'ok' },
  'not proven': { shape: '○', look: 'warning' },
  failing: { shape: '▲', look: 'critical' },
  disabled: { shape: '○', look: 'quiet' },
}

export function ChannelState({ channel }: { channel: Channel }) {
  const state = stateOfChannel(channel)
  const { shape, look } = marks[state]
  return (
    <b className={look}>
      <span aria-hidden="true">{shape}</span> {state}
    </b>
  )
}
