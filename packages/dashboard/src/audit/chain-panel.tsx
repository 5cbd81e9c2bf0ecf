import { useQuery } from '@tanstack/react-query'
import type { ChainVerdict } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { canVerify } from '../parts/sha256.ts'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { refreshMs } from '../service/fleet.ts'
import { useKeys } from '../shell/keys.ts'
import { type Progress, verifyHere } from './verify.ts'

export const chainQuery = {
  queryKey: ['audit-chain'],
  queryFn: ({ signal }: { signal: AbortSignal }) => call('getAuditChain', { signal }),
  refetchInterval: refreshMs,
}

/** Formats a count such as `1 entry` or `10,412 entries`. */
const entriesText = (count: number): string => `${count.toLocaleString('en')} ${count === 1 ? 'entry' : 'entries'}`

type Outcome = { verdict: ChainVerdict } | { fault: string }

function OutcomeSentence({ outcome, onShow }: { outcome: Outcome; onShow(seq: number): void }) {
  if ('fault' in outcome) return <p className="fault">Not verified. {outcome.fault}</p>
  const { verdict } = outcome
  if (verdict.ok)
    return (
      <p>
        <b className="ok">{entriesText(verdict.count)} verified, unbroken</b>, head{' '}
        <code className="hash">{verdict.headHash}</code>
      </p>
    )
  return (
    <p>
      <b className="breach">The chain is broken.</b> {verdict.detail}{' '}
      {verdict.seq > 1 && `Everything before entry ${verdict.seq.toLocaleString('en')} is unbroken. `}
      {verdict.reason === 'tampered' && (
        <button type="button" onClick={() => onShow(verdict.seq)}>
          Show entry {verdict.seq.toLocaleString('en')}
        </button>
      )}
    </p>
  )
}

/** The chain's state according to the service, and a button to verify it in the browser. */
export function ChainPanel({ onShow }: { onShow(seq: number): void }) {
  const { data, error } = useQuery(chainQuery)
  const [progress, setProgress] = useState<Progress>()
  const [outcome, setOutcome] = useState<Outcome>()
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])

  async function verify() {
    const controller = new AbortController()
    running.current = controller
    setOutcome(undefined)
    setProgress({ checked: 0, length: data?.length ?? 0 })
    try {
      setOutcome({ verdict: await verifyHere(setProgress, controller.signal) })
    } catch (fault) {
      setOutcome({ fault: controller.signal.aborted ? 'Stopped.' : sentenceOf(fault) })
    } finally {
      setProgress(undefined)
    }
  }

  useKeys({
    v: () => {
      if (data && !progress && canVerify()) void verify()
    },
  })
  const { checkpoint, verification } = data ?? {}
  return (
    <section className="panel chain" aria-labelledby="chain">
      <header>
        <h2 id="chain">Chain</h2>
        <span className="quiet">each entry carries the hash of the one before it</span>
        <span className="end">
          {progress ? (
            <button type="button" onClick={() => running.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="button" className="go" disabled={!data || !canVerify()} onClick={() => void verify()}>
              Verify in this browser <kbd>v</kbd>
            </button>
          )}
        </span>
      </header>
      {error && (
        <p role="alert" className="fault">
          {sentenceOf(error)}
        </p>
      )}
      {data && (
        <dl>
          <div>
            <dt>Length</dt>
            <dd>{entriesText(data.length)}</dd>
          </div>
          <div>
            <dt>Head</dt>
            <dd>
              <code className="hash">{data.head_hash}</code>
            </dd>
          </div>
          <div>
            <dt>Last checkpoint in the service's log</dt>
            <dd>
              {checkpoint ? (
                <>
                  entry {checkpoint.seq.toLocaleString('en')}, <Time at={checkpoint.at} />
                </>
              ) : (
                'none yet'
              )}
            </dd>
          </div>
          <div>
            <dt>Last verification by the service</dt>
            <dd>
              {!verification && 'none yet'}
              {verification?.result === 'intact' && (
                <>
                  {entriesText(verification.entries)} intact at <Time at={verification.at} />
                </>
              )}
              {verification && verification.result !== 'intact' && (
                <span className="breach">
                  {verification.detail} <Time at={verification.at} />
                </span>
              )}
            </dd>
          </div>
        </dl>
      )}
      <div role="status" className="verified">
        {progress && (
          <p>
            <progress max={Math.max(1, progress.length)} value={progress.checked} aria-label="Entries verified" />{' '}
            {progress.checked.toLocaleString('en')} of {progress.length.toLocaleString('en')} entries
          </p>
        )}
        {outcome && <OutcomeSentence outcome={outcome} onShow={onShow} />}
        {!canVerify() && (
          <p className="quiet">
            Browsers compute hashes only over HTTPS or on the machine of the service; there,{' '}
            <code>wardline audit verify</code> checks the same.
          </p>
        )}
      </div>
      <p className="quiet note">
        A log that was rewritten as a whole is unbroken too. Only a checkpoint that was kept elsewhere reveals that:{' '}
        <code>wardline audit verify --checkpoint</code>
      </p>
    </section>
  )
}
