import type { Deps } from '../../deps.ts'
import type { MailRecipients } from '../people/mail-recipients.ts'
import type { FindRequest } from './channels/press-token.ts'
import { createMessageDelivery } from './delivery/message-delivery.ts'
import { Receivers } from './delivery/receivers.ts'
import { createSend } from './delivery/sender.ts'
import { createOutbox } from './outbox/outbox.ts'
import { createProtectionAlerts } from './outbox/protection-alerts.ts'
import { Dispatcher } from './planning/dispatcher.ts'
import { PersonalMail } from './planning/personal-mail.ts'
import { waiting } from './planning/planner.ts'
import { switchOffGone } from './routing/channels.ts'
import { RoutingTable } from './routing/routing-table.ts'

export type Alerting = ReturnType<typeof createAlerting>

/** Connects the parts of alerting, from the outbox to the receivers. */
export function createAlerting(
  deps: Deps,
  { requestOf, recipients }: { requestOf: FindRequest; recipients: MailRecipients },
) {
  const table = new RoutingTable(deps)
  const outbox = createOutbox(deps, table)
  const receivers = new Receivers(deps)
  const onGone = (channelId: string) => switchOffGone(deps, { outbox, waiting }, channelId)
  const delivery = createMessageDelivery(deps, {
    table,
    receivers,
    recipients,
    ...createSend({ ...deps, requestOf }),
    onGone,
  })
  const personalMail = new PersonalMail(deps, { table, recipients })
  const dispatcher = new Dispatcher(deps, { table, receivers, delivery, personalMail })
  outbox.listen(() => dispatcher.wake())
  const protectionAlerts = createProtectionAlerts(outbox)
  return {
    routingTable: table,
    outbox,
    protectionAlerts,
    dispatcher,
    messageDelivery: delivery,
    requestOf,
    mailRecipients: recipients,
  }
}
