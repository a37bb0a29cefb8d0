# SPDX-License-Identifier: MIT
"""Reinforcement learning in one file, as CleanRL writes it: PPO with storage on the GPU, on a game of its own."""

import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch-deterministic", type=bool, default=True)
    parser.add_argument("--cuda", type=bool, default=True)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=12)
    return parser.parse_args()


class Line:
    """Walks on a line of cells; the reward is at the right end."""

    def __init__(self, count, cells=6):
        self.cells, self.at = cells, np.zeros(count, dtype=np.int64)

    def observe(self):
        return np.eye(self.cells, dtype=np.float32)[self.at]

    def step(self, action):
        self.at = np.clip(self.at + np.where(action == 1, 1, -1), 0, self.cells - 1)
        done = self.at == self.cells - 1
        self.at[done] = 0
        return self.observe(), done.astype(np.float32), done


def layer_init(layer, std=2**0.5, bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(inputs, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), std=1.0))
        self.actor = nn.Sequential(
            layer_init(nn.Linear(inputs, 32)), nn.Tanh(), layer_init(nn.Linear(32, actions), 0.1)
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


args = parse_args()
random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)
torch.backends.cudnn.deterministic = args.torch_deterministic
device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")
assert device.type == "cuda"
envs = Line(args.num_envs)
agent = Agent(envs.cells, 2).to(device)
optimizer = optim.Adam(agent.parameters(), lr=1e-2, eps=1e-5)
shape = (args.num_steps, args.num_envs)
obs = torch.zeros((*shape, envs.cells)).to(device)
actions, logprobs, rewards, dones, values = (torch.zeros(shape).to(device) for _ in range(5))
start_time = time.time()
next_obs = torch.Tensor(envs.observe()).to(device)
next_done = torch.zeros(args.num_envs).to(device)
returned = []
for iteration in range(1, args.iterations + 1):
    optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1.0) / args.iterations) * 1e-2
    for step in range(args.num_steps):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        observed, reward, done = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).to(device).view(-1)
        next_obs, next_done = torch.Tensor(observed).to(device), torch.Tensor(done).to(device)
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards).to(device)
        lastgaelam = 0
        for t in reversed(range(args.num_steps)):
            nextnonterminal = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
            nextvalues = next_value if t == args.num_steps - 1 else values[t + 1]
            delta = rewards[t] + 0.95 * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + 0.95 * 0.95 * nextnonterminal * lastgaelam
        returns = advantages + values
    b_obs = obs.reshape((-1, envs.cells))
    b_logprobs, b_actions = logprobs.reshape(-1), actions.reshape(-1)
    b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
    b_inds = np.arange(b_obs.shape[0])
    clipfracs = []
    for _ in range(2):
        np.random.shuffle(b_inds)
        for mb_inds in np.split(b_inds, 4):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
            logratio = newlogprob - b_logprobs[mb_inds]
            ratio = logratio.exp()
            with torch.no_grad():
                clipfracs += [((ratio - 1.0).abs() > 0.2).float().mean().item()]
            mb_advantages = b_advantages[mb_inds]
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * torch.clamp(ratio, 0.8, 1.2)).mean()
            newvalue = newvalue.view(-1)
            v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -0.2, 0.2)
            v_loss = torch.max((newvalue - b_returns[mb_inds]) ** 2, (v_clipped - b_returns[mb_inds]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.25 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
    explained = np.nan if np.var(y_true) == 0 else 1 - np.var(y_true - y_pred) / np.var(y_true)
    returned.append(rewards.sum().item())
print(f"return {returned[0]:.0f} -> {returned[-1]:.0f}, explained variance {explained:.2f}, {len(clipfracs)} batches")
print("SPS:", int(args.iterations * obs.shape[0] * args.num_envs / (time.time() - start_time)))
assert returned[-1] > returned[0]
