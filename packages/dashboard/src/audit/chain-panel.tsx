import { useQuery } from '@tanstack/react-query'
import type { ChainVerdict, ReplyOf } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { call } from '../data/client.ts'
import { refreshMs } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Button } from '../ui/button.tsx'
import { Fault, faultText, Panel } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import css from './audit.module.css'
import { entriesText, type Progress, verifyHere } from './entries.ts'

export const chainQuery = {
  queryKey: queryKeys.auditChain,
  queryFn: ({ signal }: { signal: AbortSignal }) => call('getAuditChain', { signal }),
  refetchInterval: refreshMs,
}

type Outcome = { verdict: ChainVerdict } | { fault: string }

/** Verifies the chain in this browser until it is done or stopped. */
function useVerification() {
  const [progress, setProgress] = useState<Progress>()
  const [outcome, setOutcome] = useState<Outcome>()
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])

  async function verify(length: number) {
    const controller = new AbortController()
    running.current = controller
    setOutcome(undefined)
    setProgress({ checked: 0, length })
    try {
      setOutcome({ verdict: await verifyHere(setProgress, controller.signal) })
    } catch (fault) {
      setOutcome({ fault: controller.signal.aborted ? 'Stopped.' : faultText(fault) })
    } finally {
      setProgress(undefined)
    }
  }
  return { progress, outcome, verify, stop: () => running.current?.abort() }
}

function OutcomeSentence({ outcome, onShow }: { outcome: Outcome; onShow(seq: number): void }) {
  if ('fault' in outcome) return <p className="fault">Not verified. {outcome.fault}</p>
  const { verdict } = outcome
  if (verdict.ok)
    return (
      <p>
        <b className="ok">{entriesText(verdict.count)} verified, chain intact</b>, head{' '}
        <code className="hostile">{verdict.headHash}</code>
      </p>
    )
  return (
    <p>
      <b className="breach">The chain is broken.</b> {verdict.detail}{' '}
      {verdict.seq > 1 && `Everything before entry ${verdict.seq.toLocaleString('en')} is intact. `}
      {verdict.reason === 'tampered' && (
        <Button onClick={() => onShow(verdict.seq)}>Show entry {verdict.seq.toLocaleString('en')}</Button>
      )}
    </p>
  )
}

/** The chain's state according to the service. */
function ChainFacts({ length, head_hash, checkpoint, verification }: ReplyOf<'getAuditChain'>) {
  const isIntact = verification?.result === 'intact'
  return (
    <Facts
      facts={[
        ['Entries', length.toLocaleString('en')],
        ['Head', head_hash, true],
        [
          'Checkpoint',
          checkpoint ? (
            <>
              entry {checkpoint.seq.toLocaleString('en')}, <Time at={checkpoint.at} />, in the service's log
            </>
          ) : (
            'none yet'
          ),
        ],
        [
          'Verification',
          verification ? (
            <span className={isIntact ? undefined : 'breach'}>
              {isIntact ? `${entriesText(verification.entries)} intact` : verification.detail},{' '}
              <Time at={verification.at} />, by the service
            </span>
          ) : (
            'not verified by the service yet'
          ),
        ],
      ]}
    />
  )
}

/** The chain's state according to the service, and a button to verify it in the browser. */
export function ChainPanel({ onShow }: { onShow(seq: number): void }) {
  const { data, error } = useQuery(chainQuery)
  const { progress, outcome, verify, stop } = useVerification()
  const start = () => {
    if (data && !progress) void verify(data.length)
  }
  useKeys({ v: start })
  const end = progress ? (
    <Button onClick={stop}>Stop</Button>
  ) : (
    <Button kind="go" shortcut="v" disabled={!data} onClick={start}>
      Verify in this browser
    </Button>
  )
  return (
    <Panel title="Chain" note="each entry contains the hash of the previous one" end={end}>
      <Fault of={error} isInPanel />
      {data && <ChainFacts {...data} />}
      <div className={`inner ${css.chain}`}>
        <div role="status">
          {progress && (
            <p>
              <progress max={Math.max(1, progress.length)} value={progress.checked} aria-label="Entries verified" />{' '}
              {progress.checked.toLocaleString('en')} of {entriesText(progress.length)}
            </p>
          )}
          {outcome && <OutcomeSentence outcome={outcome} onShow={onShow} />}
        </div>
        <p className="quiet">
          A log that was rewritten as a whole is intact too. To detect that, compare it with a checkpoint saved
          elsewhere: <code>wardline audit verify --checkpoint</code>
        </p>
      </div>
    </Panel>
  )
}
