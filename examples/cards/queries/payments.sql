SELECT paid_at, amount, category, merchant_name FROM Payments
WHERE holder = 3 AND paid_at >= '2024-01-09' AND paid_at < '2024-01-11' AND amount >= 20 ORDER BY paid_at DESC
