#ifndef KVROUTER_DISPATCH_POSTED_EVENT_H_
#define KVROUTER_DISPATCH_POSTED_EVENT_H_

#include <functional>
#include <utility>

namespace kvrouter {

// Events of objects that handle them in turn: they are owned by shared pointers, have `events()`
// (SerialEvents) and `ended()`, after which nothing is handled any more.

// `event(Object&)`, now or after the event at hand.
template <typename Object, typename Event>
void PostEvent(Object* object, Event event) {
  const auto self = object->shared_from_this();
  self->events().Run(
      [&self, &event] {
        if (!self->ended()) event(*self);
      },
      [&self, &event]() -> std::function<void()> {
        return [owner = self, event = std::move(event)]() mutable {
          if (!owner->ended()) event(*owner);
        };
      });
}

// The same as a callback that does not keep the object alive.
template <typename Object, typename Event>
std::function<void()> WeakEvent(Object* object, Event event) {
  return [weak = object->weak_from_this(), event] {
    if (const auto self = weak.lock()) PostEvent(self.get(), event);
  };
}

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_POSTED_EVENT_H_
