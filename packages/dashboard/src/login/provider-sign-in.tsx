import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { leadOn } from '../data/command-logins.ts'
import { currentSession, type Session } from '../data/session.ts'
import { confirmAddress, finishSignIn, startAddress, startSignIn, takeAttempt } from '../data/sign-in.ts'
import { Alone } from '../shell/other-pages.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Fault } from '../ui/panel.tsx'
import { Confirmed, ConfirmSession } from './confirm-session.tsx'
import { takeAnswer } from './provider-answer.ts'

const route = getRouteApi('/auth/login')

/** An attempt works once: React may run an effect twice. */
function useOnce(work: () => void): void {
  const isDone = useRef(false)
  useEffect(() => {
    if (isDone.current) return
    isDone.current = true
    work()
  }, [])
}

interface FailedProps {
  fault: Error
  to: string | undefined
  /** The person is signed in, and did not prove again who they are. */
  isConfirmation: boolean
}

function Failed({ fault, to, isConfirmation }: FailedProps) {
  const byKey = `/login?by=key${to === undefined ? '' : `&to=${encodeURIComponent(to)}`}`
  return (
    <>
      <Fault of={fault} />
      <p className="chips">
        <a className={buttonClass('go')} href={isConfirmation ? confirmAddress : startAddress(to)}>
          Try again
        </a>
        <a className={buttonClass()} href={byKey}>
          Sign in with a key
        </a>
      </p>
    </>
  )
}

/** Leads to the provider, or lets the local admin confirm by a passkey. */
export function StartSignIn() {
  const { to, confirm } = route.useSearch()
  const { run, fault } = useChange({ changes: [] })
  const [local, setLocal] = useState<Session>()
  useOnce(
    () =>
      void run(async () => {
        const current = confirm ? await currentSession() : undefined
        if (current && !current.person) return setLocal(current)
        // Replaces this page: the way back from the provider would lead to it again.
        location.replace(await startSignIn(to, confirm === true))
      }),
  )
  if (local) return <ConfirmSession session={local} />
  return (
    <Alone title="Sign in">
      {fault ? (
        <Failed fault={fault} to={to} isConfirmation={confirm === true} />
      ) : (
        <p className="quiet">Opening the page of the provider…</p>
      )}
    </Alone>
  )
}

/** Where the provider returns the browser. */
export function FinishSignIn() {
  const router = useRouter()
  const client = useQueryClient()
  const { run, fault } = useChange({ changes: [] })
  const [begun, setBegun] = useState<ReturnType<typeof takeAttempt>>()
  const [isConfirmed, setConfirmed] = useState(false)
  useOnce(() => {
    const attempt = takeAttempt()
    setBegun(attempt)
    void run(async () => {
      const ofCommandLine = await finishSignIn(takeAnswer(), attempt)
      if (ofCommandLine) return leadOn(ofCommandLine)
      if (attempt?.isConfirmation) return setConfirmed(true)
      client.clear()
      router.history.replace(attempt?.to ?? '/')
    })
  })
  if (isConfirmed) return <Confirmed />
  const isConfirmation = begun?.isConfirmation === true
  return (
    <Alone title={fault ? (isConfirmation ? 'Not confirmed' : 'You are not signed in') : 'Sign in'}>
      {fault ? (
        <Failed fault={fault} to={begun?.to} isConfirmation={isConfirmation} />
      ) : (
        <p className="quiet">Signing in…</p>
      )}
    </Alone>
  )
}
