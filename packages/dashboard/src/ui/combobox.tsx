import { Autocomplete as Base } from '@base-ui/react/autocomplete'
import { type ReactNode, useRef } from 'react'
import css from './choices.module.css'

interface ComboboxProps<Item> {
  label: string
  value: string
  /** Found items, best first. */
  items: readonly Item[]
  keyOf(item: Item): string
  onChange(text: string): void
  onPick(item: Item): void
  onFocus?(): void
  /** Enter was pressed while no item was found. */
  onPickNothing?(): void
  /** Heading of the group of an item. Items of a group follow each other. */
  groupOf?(item: Item): string
  item(item: Item): ReactNode
  /** Below the list, such as how many items it lacks. */
  note?: ReactNode
}

/** A text field whose list of suggestions stays open below it. Arrow keys move through the list, Enter picks. */
export function Combobox<Item>(props: ComboboxProps<Item>) {
  const { label, value, items, keyOf, onChange, onPick, onFocus, onPickNothing, groupOf, item, note } = props
  const highlighted = useRef<Item>(undefined)
  const option = (one: Item) => (
    <Base.Item key={keyOf(one)} value={one} className={css.item} onClick={() => onPick(one)}>
      {item(one)}
    </Base.Item>
  )
  return (
    <Base.Root
      inline
      open
      mode="none"
      autoHighlight="always"
      keepHighlight
      items={items}
      value={value}
      onItemHighlighted={(one) => {
        highlighted.current = one
      }}
      onValueChange={(text, { reason }) => {
        // Picking must not write the item into the field.
        if (reason !== 'item-press') onChange(text)
      }}
    >
      <Base.Input
        data-first
        className={css.input}
        aria-label={label}
        placeholder={label}
        onFocus={onFocus}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return
          // The library highlights a moment after typing; and the same press must not reach what gets the focus back.
          event.preventBaseUIHandler()
          event.preventDefault()
          const { current } = highlighted
          const found = items.find((one) => current !== undefined && keyOf(one) === keyOf(current)) ?? items[0]
          if (found === undefined) onPickNothing?.()
          else onPick(found)
        }}
      />
      <Base.List className={css.list} aria-label="Results">
        {groupOf
          ? [...Map.groupBy(items, groupOf)].map(([group, ones]) => (
              <Base.Group key={group}>
                <Base.GroupLabel className={`quiet ${css.group}`}>{group}</Base.GroupLabel>
                {ones.map(option)}
              </Base.Group>
            ))
          : items.map(option)}
      </Base.List>
      <p className={`quiet ${css.note}`} role="status">
        {note}
      </p>
    </Base.Root>
  )
}
